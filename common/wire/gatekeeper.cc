#include "common/wire/gatekeeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/keys/key_pair.h"

namespace capstan {
namespace {

constexpr const char* kEndpoint = "inproc://zeromq.zap.01";
constexpr std::chrono::milliseconds kRefreshEvery{1000};
// The frames of a question: version, request id, domain, address, identity, mechanism, the client's public key.
constexpr std::size_t kFrames = 7, kRequestId = 1, kAddress = 3, kMechanism = 5, kClientKey = 6;

std::string_view TextOf(const zmq::message_t& frame) { return {frame.data<char>(), frame.size()}; }

// Returns the key that a question is about; nothing if it is not about CURVE.
std::optional<PublicKey> KeyIn(const std::vector<zmq::message_t>& question) {
  if (question.size() != kFrames || TextOf(question[kMechanism]) != "CURVE") return std::nullopt;
  PublicKey key;
  if (question[kClientKey].size() != key.bytes.size()) return std::nullopt;
  std::memcpy(key.bytes.data(), question[kClientKey].data(), key.bytes.size());
  return key;
}

}  // namespace

Result<std::unique_ptr<Gatekeeper>> Gatekeeper::Start(zmq::context_t* context, std::shared_ptr<Admission> admission) {
  zmq::socket_t questions;
  const int failure = CallZmq([&] {
    questions = zmq::socket_t(*context, zmq::socket_type::rep);
    questions.set(zmq::sockopt::linger, 0);
    questions.bind(kEndpoint);
    return true;
  });
  const int stop = failure == 0 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
  if (stop < 0) return Unreachable("keys cannot be checked: too many open files; raise ulimit -n");
  return std::unique_ptr<Gatekeeper>(new Gatekeeper(std::move(questions), stop, std::move(admission)));
}

Gatekeeper::Gatekeeper(zmq::socket_t questions, int stop, std::shared_ptr<Admission> admission)
    : questions_(std::move(questions)), stop_(stop), admission_(std::move(admission)), thread_([this] { Run(); }) {}

Gatekeeper::~Gatekeeper() {
  const std::uint64_t one = 1;
  const ssize_t written = write(stop_, &one, sizeof one);
  (void)written;  // an eventfd of 0 takes it
  thread_.join();
  questions_.close();
  close(stop_);
}

void Gatekeeper::Run() {
  pthread_setname_np(pthread_self(), "gatekeeper");
  auto next_refresh = std::chrono::steady_clock::now();
  for (;;) {
    std::array<zmq::pollitem_t, 2> items = {{{questions_.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, stop_, ZMQ_POLLIN, 0}}};
    CallZmq([&] { return zmq::poll(items.data(), items.size(), kRefreshEvery), true; });
    if ((items[1].revents & ZMQ_POLLIN) != 0) return;
    if ((items[0].revents & ZMQ_POLLIN) != 0) Answer();
    if (const auto now = std::chrono::steady_clock::now(); now >= next_refresh) {
      next_refresh = now + kRefreshEvery;
      admission_->Refresh(now);
    }
  }
}

void Gatekeeper::Answer() {
  std::vector<zmq::message_t> question;
  do {
    if (!ReceiveNow(questions_, &question.emplace_back())) return;
  } while (question.back().more());
  const std::optional<PublicKey> key = KeyIn(question);
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const bool admitted = key && admission_->Find(*key, now).has_value();
  if (key && !admitted) admission_->NoteRefused(*key, std::string(TextOf(question[kAddress])), now);
  const std::string_view id = question.size() > kRequestId ? TextOf(question[kRequestId]) : std::string_view();
  const std::string user = admitted ? capstan::TextOf(*key) : "";
  const std::array<std::string_view, 6> answer = {"1.0", id, admitted ? "200" : "400", admitted ? "OK" : "not admitted",
                                                  user,  ""};
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const auto more = i + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    if (CallZmq([&] { return questions_.send(zmq::buffer(answer[i]), more).has_value(); }) != 0) return;
  }
}

}  // namespace capstan
