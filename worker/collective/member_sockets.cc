#include "worker/collective/member_sockets.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "common/base/host_port.h"
#include "common/base/process_address.h"
#include "common/base/utf8.h"

namespace capstan::collective {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kAcceptAgain{100};  // after no connection could be accepted, as when all descriptors are in use
constexpr int kTriesMax = 100;             // a rank under attack may close a member's connection, too

// What the connecting rank sends. All ranks run one build, so it is sent as it lies in memory.
struct Introduction {
  std::uint32_t rank = 0, number = 0;
  Proof proof{};
};

std::string Claim(std::size_t from, std::size_t to, std::size_t number) {
  return std::to_string(from) + " to " + std::to_string(to) + ", " + std::to_string(number);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// `host`: without brackets. `port`: "0" for any. `flags`: of getaddrinfo.
Result<AddressList> Resolve(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return Unreachable(gai_strerror(error));
  }
  return AddressList(list, freeaddrinfo);
}

std::string WithoutBrackets(const std::string& host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

// Returns HOST:PORT, in numbers.
std::string NameOfSocket(int descriptor) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) != 0) return "";
  if (getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return WithHost(host.data(), ":" + std::string(port.data()));
}

bool AwaitReady(int descriptor, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - SteadyClock::now());
    if (left <= milliseconds(0)) return false;
    pollfd waiting{descriptor, events, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min(left, milliseconds(60'000)).count())) > 0) return true;
  }
}

bool SendAllNow(int descriptor, std::span<const std::byte> bytes) {  // a new connection has room for a few bytes
  return send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

// Reads what has come into `bytes` behind the first `read`. Returns false if the other end has closed.
bool ReadSome(int descriptor, std::span<std::byte> bytes, std::size_t* read) {
  const ssize_t got = recv(descriptor, bytes.data() + *read, bytes.size() - *read, MSG_DONTWAIT);
  if (got > 0) *read += static_cast<std::size_t>(got);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

struct MemberSockets::Candidate {
  Socket socket;
  Deadline until = {};
  std::array<std::byte, sizeof(Introduction)> introduction{};
  std::size_t read = 0;
};

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<MemberSockets> MemberSockets::Listen(const std::string& host) {
  const auto failed = [&](const std::string& why) {
    return Unreachable("cannot listen at \"" + host + "\": " + why +
                       "; give an address of this machine that the other ranks can reach");
  };
  const Result<AddressList> resolved = Resolve(WithoutBrackets(host), "0", 0);
  if (!resolved.ok()) return failed(resolved.status().message());
  const addrinfo& at = **resolved;
  Socket listener(socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener || bind(listener.get(), at.ai_addr, at.ai_addrlen) != 0 || listen(listener.get(), SOMAXCONN) != 0) {
    return failed(std::strerror(errno));
  }
  std::string address = WithKey(NameOfSocket(listener.get()), NewGroupShare());
  return MemberSockets(std::move(listener), std::move(address));
}

Status MemberSockets::Connect(const MeshOptions& options, std::size_t count, const std::vector<std::string>& addresses,
                              Deadline deadline) {
  std::vector<std::string> shares;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    if (!IsProcessAddress(addresses[rank]) || KeyInAddress(addresses[rank]).empty()) {
      return Invalid(NamesOf(RankSet().set(rank), options.name_of) +
                     " gave no address with a share of the group's secret; start all workers with one build and one "
                     "job file");
    }
    shares.emplace_back(KeyInAddress(addresses[rank]));
    connections_.emplace_back(count);
  }
  rank_ = options.rank;
  group_.emplace(shares);
  for (int rank = 0; rank < rank_; ++rank) {
    for (std::size_t number = 0; number < count; ++number) {
      const Status status = ConnectTo(rank, number, WithoutKey(addresses[static_cast<std::size_t>(rank)]), deadline);
      if (status.ok()) continue;
      return Unreachable("cannot connect to " +
                         NamesOf(RankSet().set(static_cast<std::size_t>(rank)), options.name_of) + ": " +
                         status.message() + "; see that it runs and can be reached");
    }
  }
  AcceptAll(deadline);
  listener_ = Socket();
  if (Missing().none()) return {};
  return Unreachable("no connection came in time from " + NamesOf(Missing(), options.name_of) +
                     "; see that they run, and that they can reach " + WithoutKey(address_));
}

// Connects to a lower rank. Both ends prove the group's secret.
Status MemberSockets::ConnectTo(int rank, std::size_t number, const std::string& address, Deadline deadline) {
  const std::size_t colon = address.rfind(':');
  // Another process chose the address. A lookup of a name could take longer than the deadline.
  const Result<AddressList> in_numbers =
      Resolve(WithoutBrackets(address.substr(0, colon)), address.substr(colon + 1), AI_NUMERICHOST | AI_NUMERICSERV);
  if (!in_numbers.ok()) return Invalid("it published " + Excerpt(address) + ", whose host is not in numbers");
  const addrinfo& at = **in_numbers;
  const auto me = static_cast<std::size_t>(rank_), other = static_cast<std::size_t>(rank);
  Introduction introduction{static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(number),
                            group_->Of(Claim(me, other, number))};
  std::string why = "it did not answer in time";
  for (int i = 0; i < kTriesMax && SteadyClock::now() < deadline; ++i) {
    Socket made(socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made) return Unreachable(std::strerror(errno));
    int error = connect(made.get(), at.ai_addr, at.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && AwaitReady(made.get(), POLLOUT, deadline)) {
      socklen_t size = sizeof error;
      getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0 && error != EINPROGRESS) return Unreachable(std::strerror(error));
    if (error != 0 || !SendAllNow(made.get(), std::as_bytes(std::span(&introduction, 1)))) continue;
    Proof answer{};
    std::size_t read = 0;
    while (read < answer.size() && AwaitReady(made.get(), POLLIN, deadline)) {
      if (!ReadSome(made.get(), std::as_writable_bytes(std::span(answer)), &read)) break;
    }
    if (read == answer.size() && group_->Accepts(answer, Claim(other, me, number))) {
      connections_[other][number] = std::move(made);
      return {};
    }
    why = "the process at " + address + " does not prove that it is a member of the group";
  }
  return Unreachable(why);
}

void MemberSockets::AcceptAll(Deadline deadline) {
  std::vector<Candidate> candidates;
  Deadline accept_at = {};
  while (Missing().any()) {
    const bool accepts = SteadyClock::now() >= accept_at;
    Deadline until = accepts ? deadline : std::min(deadline, accept_at);
    std::vector<pollfd> waiting{{accepts ? listener_.get() : -1, POLLIN, 0}};  // poll ignores -1
    for (const Candidate& candidate : candidates) {
      waiting.push_back({candidate.socket.get(), POLLIN, 0});
      until = std::min(until, candidate.until);
    }
    const auto left = std::chrono::ceil<milliseconds>(until - SteadyClock::now());
    poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    const Deadline now = SteadyClock::now();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (waiting[i + 1].revents != 0) ReadIntroduction(&candidates[i]);
      if (now >= candidates[i].until) candidates[i].socket = Socket();
    }
    std::erase_if(candidates, [](const Candidate& candidate) { return !candidate.socket; });
    if (waiting[0].revents != 0 && !Accept(&candidates)) accept_at = now + kAcceptAgain;
    if (now >= deadline) return;
  }
}

bool MemberSockets::Accept(std::vector<Candidate>* candidates) const {
  Socket accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted) return false;
  if (candidates->size() >= kCandidatesMax) candidates->erase(candidates->begin());
  candidates->push_back({std::move(accepted), SteadyClock::now() + kIntroductionMax});
  return true;
}

void MemberSockets::ReadIntroduction(Candidate* candidate) {
  Socket socket = std::move(candidate->socket);
  if (!ReadSome(socket.get(), candidate->introduction, &candidate->read)) return;
  if (candidate->read < sizeof(Introduction)) {
    candidate->socket = std::move(socket);
    return;
  }
  Introduction introduction;
  std::memcpy(&introduction, candidate->introduction.data(), sizeof introduction);
  const std::size_t me = static_cast<std::size_t>(rank_), rank = introduction.rank, number = introduction.number;
  const bool is_expected = rank > me && rank < connections_.size() && number < connections_[rank].size();
  if (!is_expected || connections_[rank][number]) return;
  if (!group_->Accepts(introduction.proof, Claim(rank, me, number))) return;
  const Proof answer = group_->Of(Claim(me, rank, number));
  if (SendAllNow(socket.get(), std::as_bytes(std::span(answer)))) connections_[rank][number] = std::move(socket);
}

// The ranks to which not all connections are made.
RankSet MemberSockets::Missing() const {
  RankSet missing;
  for (std::size_t rank = 0; rank < connections_.size(); ++rank) {
    const auto& to_it = connections_[rank];
    const bool all = std::all_of(to_it.begin(), to_it.end(), [](const Socket& socket) { return bool(socket); });
    missing.set(rank, !all && rank != static_cast<std::size_t>(rank_));
  }
  return missing;
}

}  // namespace capstan::collective
