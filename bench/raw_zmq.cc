#include "bench/raw_zmq.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/raw_socket.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kSourceBytes = std::size_t{64} << 20;  // larger than the caches
constexpr std::size_t kQueuedBytes = std::size_t{32} << 20;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int Queued(std::size_t frame_bytes) {
  return static_cast<int>(std::clamp<std::size_t>(kQueuedBytes / frame_bytes, 4, 4096));
}

// Sends frames until the parent ends this process. The parent's first line is the receiver's address.
Status Send(Channel& parent, std::size_t frame_bytes) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, parent.Receive());
  RawSocket dealer(ZMQ_DEALER, Queued(frame_bytes));
  CAPSTAN_RETURN_IF_ERROR(dealer.Connect(address));
  const std::size_t frames = std::max<std::size_t>(1, kSourceBytes / frame_bytes);
  std::vector<std::byte> source(frames * frame_bytes, std::byte{1});
  const std::array<std::byte, kHeaderBytes> header{};
  for (std::size_t i = 0;; i = (i + 1) % frames) {
    zmq_send(dealer.get(), header.data(), header.size(), ZMQ_SNDMORE);
    dealer.SendInPlace(source.data() + i * frame_bytes, frame_bytes, 0);
  }
}

// Returns the payload bytes that arrive within `seconds`.
std::uint64_t ReceiveFor(const RawSocket& router, double seconds) {
  std::uint64_t bytes = 0;
  const Clock::time_point start = Clock::now();
  while (SecondsSince(start) < seconds) {
    for (int message = 0; message < 8; ++message) {
      bool more = true;
      while (more) {
        RawFrame frame;
        frame.Receive(router);
        more = frame.more();
        if (!more) bytes += frame.size();
      }
    }
  }
  return bytes;
}

// Sends its address to the parent, then receives until the stream is steady and sends "flows". After the parent's next
// line it receives for `seconds` and answers with the GB received and the seconds.
Status Receive(Channel& parent, Carrier carrier, std::size_t frame_bytes, double seconds) {
  RawSocket router(ZMQ_ROUTER, Queued(frame_bytes));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, router.Bind(carrier));
  parent.Send(address);
  ReceiveFor(router, seconds / 4);  // until the stream is steady
  parent.Send("flows");
  CAPSTAN_RETURN_IF_ERROR(parent.Receive().status());
  const Clock::time_point start = Clock::now();
  const std::uint64_t bytes = ReceiveFor(router, seconds);
  parent.Send(std::to_string(static_cast<double>(bytes) * 1e-9) + " " + std::to_string(SecondsSince(start)));
  (void)parent.Receive();
  return {};
}

struct Pair {
  ChildProcess receiver, sender;
  double CpuSeconds() const { return receiver.CpuSeconds() + sender.CpuSeconds(); }
};

Result<Pair> StartPair(Carrier carrier, std::size_t frame_bytes, double seconds) {
  Pair pair{ChildProcess::Fork([=](Channel& parent) { return Receive(parent, carrier, frame_bytes, seconds); }),
            ChildProcess::Fork([=](Channel& parent) { return Send(parent, frame_bytes); })};
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, pair.receiver.channel().Receive());
  pair.sender.channel().Send(address);
  return pair;
}

double TotalCpu(const std::vector<Pair>& pairs) {
  double seconds = 0.0;
  for (const Pair& pair : pairs) seconds += pair.CpuSeconds();
  return seconds;
}

Status Echo(Channel& parent, Carrier carrier, std::size_t bytes) {
  RawSocket router(ZMQ_ROUTER, Queued(bytes));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, router.Bind(carrier));
  parent.Send(address);
  for (;;) {
    RawFrame peer, payload;
    if (peer.Receive(router) < 0 || payload.Receive(router) < 0) return Unreachable("raw ZeroMQ cannot receive");
    zmq_send(router.get(), peer.data(), peer.size(), ZMQ_SNDMORE);
    zmq_send(router.get(), payload.data(), payload.size(), 0);
  }
}

Status Ping(Channel& parent, std::size_t bytes, int round_trips) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, parent.Receive());
  RawSocket dealer(ZMQ_DEALER, Queued(bytes));
  CAPSTAN_RETURN_IF_ERROR(dealer.Connect(address));
  std::vector<std::byte> message(bytes);
  std::vector<double> took;
  for (int i = 0; i < round_trips; ++i) {
    const Clock::time_point start = Clock::now();
    zmq_send(dealer.get(), message.data(), message.size(), 0);
    zmq_recv(dealer.get(), message.data(), message.size(), 0);
    took.push_back(SecondsSince(start) * 1e6);
  }
  std::sort(took.begin(), took.end());
  parent.Send(std::to_string(took[took.size() / 2]) + " " + std::to_string(took[took.size() * 99 / 100]));
  (void)parent.Receive();
  return {};
}

}  // namespace

Result<RawThroughput> MeasureRawThroughput(Carrier carrier, int pairs, std::size_t frame_bytes, double seconds) {
  std::vector<Pair> running;
  for (int i = 0; i < pairs; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(Pair pair, StartPair(carrier, frame_bytes, seconds));
    running.push_back(std::move(pair));
  }
  for (Pair& pair : running) CAPSTAN_RETURN_IF_ERROR(pair.receiver.channel().Receive().status());
  const double cpu = TotalCpu(running);
  for (Pair& pair : running) pair.receiver.channel().Send("go");
  RawThroughput sum;
  double gigabytes = 0.0;
  for (Pair& pair : running) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string line, pair.receiver.channel().Receive());
    const std::size_t space = line.find(' ');
    gigabytes += std::stod(line);
    sum.gigabytes_per_second += std::stod(line) / std::stod(line.substr(space));
  }
  sum.cpu_seconds_per_gigabyte = (TotalCpu(running) - cpu) / gigabytes;
  return sum;
}

Result<RawRoundTrip> MeasureRawRoundTrip(Carrier carrier, std::size_t bytes, int round_trips) {
  ChildProcess echo = ChildProcess::Fork([=](Channel& parent) { return Echo(parent, carrier, bytes); });
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, echo.channel().Receive());
  ChildProcess ping = ChildProcess::Fork([=](Channel& parent) { return Ping(parent, bytes, round_trips); });
  ping.channel().Send(address);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string line, ping.channel().Receive());
  return RawRoundTrip{std::stod(line), std::stod(line.substr(line.find(' ')))};
}

}  // namespace capstan::bench
