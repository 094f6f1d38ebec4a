#include "bench/raw_key_value.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/raw_socket.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kQueued = 1 << 16;  // all messages of a round

struct Request {
  std::uint64_t key = 0;
  std::uint64_t pull = 0;
};

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void AddTo(float* value, const std::byte* gradient, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float one;
    std::memcpy(&one, gradient + i * sizeof(float), sizeof one);
    value[i] += one;
  }
}

Status Serve(Channel& parent, Carrier carrier, std::size_t value_bytes, std::size_t keys) {
  RawSocket router(ZMQ_ROUTER, kQueued);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string address, router.Bind(carrier));
  std::vector<std::byte> values(keys * value_bytes, std::byte{0});
  parent.Send(address);
  for (;;) {
    RawFrame peer, header, gradient;
    if (peer.Receive(router) < 0 || header.Receive(router) < 0) return Unreachable("raw ZeroMQ cannot receive");
    Request request;
    std::memcpy(&request, header.data(), sizeof request);
    std::byte* value = values.data() + request.key * value_bytes;
    if (header.more()) {
      gradient.Receive(router);
      AddTo(reinterpret_cast<float*>(value), gradient.data(), value_bytes / sizeof(float));
    }
    zmq_send(router.get(), peer.data(), peer.size(), ZMQ_SNDMORE);
    zmq_send(router.get(), &request, sizeof request, request.pull != 0 ? ZMQ_SNDMORE : 0);
    if (request.pull != 0) router.SendInPlace(value, value_bytes, 0);
  }
}

class RawWorker {
 public:
  RawWorker(std::size_t value_bytes, std::size_t keys)
      : value_bytes_(value_bytes),
        keys_(keys),
        gradient_(value_bytes * keys, std::byte{0}),
        value_(value_bytes * keys, std::byte{0}) {}

  Status Connect(const std::string& addresses) {
    std::istringstream list(addresses);
    for (std::string address; list >> address;) {
      servers_.push_back(std::make_unique<RawSocket>(ZMQ_DEALER, kQueued));
      CAPSTAN_RETURN_IF_ERROR(servers_.back()->Connect(address));
    }
    return {};
  }

  void Round() {
    for (std::uint64_t key = 0; key < keys_; ++key) {
      RawSocket& server = ServerOf(key);
      const Request push{key, 0}, pull{key, 1};
      zmq_send(server.get(), &push, sizeof push, ZMQ_SNDMORE);
      server.SendInPlace(gradient_.data() + key * value_bytes_, value_bytes_, 0);
      zmq_send(server.get(), &pull, sizeof pull, 0);
    }
    for (std::uint64_t answer = 0; answer < 2 * keys_; ++answer) ReceiveFrom(ServerOf(answer / 2));
  }

 private:
  RawSocket& ServerOf(std::uint64_t key) { return *servers_[key % servers_.size()]; }
  void ReceiveFrom(const RawSocket& server) {
    RawFrame header, value;
    header.Receive(server);
    if (!header.more()) return;
    Request request;
    std::memcpy(&request, header.data(), sizeof request);
    value.Receive(server);
    std::memcpy(value_.data() + request.key * value_bytes_, value.data(), value.size());
  }

  const std::size_t value_bytes_, keys_;
  std::vector<std::byte> gradient_, value_;
  std::vector<std::unique_ptr<RawSocket>> servers_;
};

Status RunRawWorker(Channel& parent, std::size_t value_bytes, std::size_t keys, double seconds) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string addresses, parent.Receive());
  RawWorker worker(value_bytes, keys);
  CAPSTAN_RETURN_IF_ERROR(worker.Connect(addresses));
  for (int i = 0; i < 3; ++i) worker.Round();
  parent.Send("ready");
  CAPSTAN_RETURN_IF_ERROR(parent.Receive().status());
  const Clock::time_point start = Clock::now();
  std::uint64_t rounds = 0;
  for (; Since(start) < seconds; ++rounds) worker.Round();
  const double gigabytes = 2e-9 * static_cast<double>(rounds * keys * value_bytes);
  parent.Send(std::to_string(gigabytes) + " " + std::to_string(Since(start)));
  for (;;) worker.Round();
}

double TotalCpu(const std::vector<ChildProcess>& processes) {
  double seconds = 0.0;
  for (const ChildProcess& process : processes) seconds += process.CpuSeconds();
  return seconds;
}

}  // namespace

Result<RawThroughput> MeasureRawKeyValue(Carrier carrier, int servers, std::size_t value_bytes, std::size_t keys,
                                         double seconds) {
  std::vector<ChildProcess> processes;
  std::string addresses;
  for (int i = 0; i < servers; ++i) {
    processes.push_back(ChildProcess::Fork([=](Channel& parent) { return Serve(parent, carrier, value_bytes, keys); }));
    CAPSTAN_ASSIGN_OR_RETURN(const std::string address, processes.back().channel().Receive());
    addresses += address + " ";
  }
  const auto first_worker = processes.size();
  for (int i = 0; i < servers; ++i) {
    processes.push_back(
        ChildProcess::Fork([=](Channel& parent) { return RunRawWorker(parent, value_bytes, keys, seconds); }));
    processes.back().channel().Send(addresses);
  }
  for (std::size_t i = first_worker; i < processes.size(); ++i) {
    CAPSTAN_RETURN_IF_ERROR(processes[i].channel().Receive().status());
  }
  const double cpu = TotalCpu(processes);
  for (std::size_t i = first_worker; i < processes.size(); ++i) processes[i].channel().Send("go");
  RawThroughput sum;
  double gigabytes = 0.0;
  for (std::size_t i = first_worker; i < processes.size(); ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string line, processes[i].channel().Receive());
    double moved = 0.0, took = 1.0;
    std::istringstream(line) >> moved >> took;
    gigabytes += moved;
    sum.gigabytes_per_second += moved / took;
  }
  sum.cpu_seconds_per_gigabyte = (TotalCpu(processes) - cpu) / gigabytes;
  return sum;
}

}  // namespace capstan::bench
