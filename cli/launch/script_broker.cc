#include "cli/launch/script_broker.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "cli/run/json_fields.h"
#include "common/base/process_address.h"

namespace capstan::cli {
namespace {

constexpr int kWaitingMax = 128;  // connections that the system keeps until Serve accepts them

}  // namespace

Result<ScriptBroker> ScriptBroker::Create(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > kSocketPathBytesMax) return Invalid("the path " + path + " is too long for a socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Unreachable("cannot make a socket: " + std::string(std::strerror(errno)));
  unlink(path.c_str());  // of a launcher that was killed
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd, kWaitingMax) != 0) {
    const int error = errno;
    close(fd);
    return Unreachable("cannot make the socket " + path + ": " + std::strerror(error));
  }
  return ScriptBroker(path, fd);
}

ScriptBroker::~ScriptBroker() {
  for (const Asker& asker : askers_) close(asker.fd);
  if (fd_ < 0) return;
  close(fd_);
  unlink(path_.c_str());
}

ScriptBroker::ScriptBroker(ScriptBroker&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      accepts_(other.accepts_),
      askers_(std::exchange(other.askers_, {})),
      coordinator_(std::move(other.coordinator_)) {}

void ScriptBroker::AddTo(std::vector<pollfd>* fds) const {
  if (accepts_) fds->push_back({fd_, POLLIN, 0});
  for (const Asker& asker : askers_) fds->push_back({asker.fd, POLLIN, 0});
}

void ScriptBroker::Serve() {
  Accept();
  const auto useless = [this](Asker& asker) {
    const bool keep = Read(&asker);
    if (!keep) close(asker.fd);
    return !keep;
  };
  askers_.erase(std::remove_if(askers_.begin(), askers_.end(), useless), askers_.end());
  AnswerAll();
}

std::optional<std::string> ScriptBroker::FactsOf(std::uint32_t index) const {
  for (const Asker& asker : askers_) {
    if (asker.index == index) return asker.facts;
  }
  return std::nullopt;
}

void ScriptBroker::Announce(const std::string& coordinator) {
  coordinator_ = coordinator;
  AnswerAll();
}

void ScriptBroker::Accept() {
  for (;;) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      accepts_ = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      return;
    }
    if (askers_.size() == kAskersMax) {
      close(fd);
    } else {
      askers_.push_back({fd, "", {}, ""});
    }
  }
}

bool ScriptBroker::Read(Asker* asker) const {
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t size = read(asker->fd, bytes.data(), bytes.size());
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0 || asker->index) return false;  // it has ended, or says more than one line
    asker->line.append(bytes.data(), static_cast<std::size_t>(size));
    if (asker->line.size() > kLineBytesMax) return false;
    if (asker->line.ends_with('\n')) return TakeQuestion(asker);
  }
}

// Takes the line {"index": 0, "facts": {...}} apart.
bool ScriptBroker::TakeQuestion(Asker* asker) {
  const nlohmann::json question = ParseJson(asker->line);
  const std::optional<std::uint64_t> index = question.is_object() ? CountIn(question, "index") : std::nullopt;
  if (!index || *index > std::numeric_limits<std::uint32_t>::max() || !question.contains("facts")) return false;
  asker->index = static_cast<std::uint32_t>(*index);
  asker->facts = question["facts"].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  asker->line.clear();
  return true;
}

void ScriptBroker::AnswerAll() {
  if (coordinator_.empty()) return;
  const std::string answer = coordinator_ + "\n";
  std::erase_if(askers_, [&](const Asker& asker) {
    if (!asker.index) return false;
    // An address fits into the socket's buffer. A process that has ended takes no answer.
    [[maybe_unused]] const ssize_t sent = send(asker.fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    close(asker.fd);
    return true;
  });
}

}  // namespace capstan::cli
