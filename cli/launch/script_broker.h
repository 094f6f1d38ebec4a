// ScriptBroker: a socket at which the processes of `capstan run` ask for a job that does not exist yet. A process sends
// one line, its place and its script's facts, and gets one line when the job runs: the coordinator's address.
//
// Kind:   owned by the launcher's thread, which polls its descriptors and calls Serve. The socket goes with the object.
// Limits: kAskersMax connections, of kLineBytesMax bytes each; what is more is closed. A line that is no question
//         closes its connection. Nothing here waits. Without a free descriptor, connections wait for a later Serve.
// Fails:  Create: no socket can be made at the path.
// Why:    a script must run up to prepare() before anyone knows its job, and then goes on in it.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::cli {

class ScriptBroker {
 public:
  static constexpr std::size_t kAskersMax = 8192, kLineBytesMax = std::size_t{64} << 10;

  // `path`: of the socket, in a folder that only this user can enter.
  static Result<ScriptBroker> Create(const std::string& path);
  ~ScriptBroker();
  ScriptBroker(ScriptBroker&& other) noexcept;
  ScriptBroker& operator=(ScriptBroker&&) = delete;

  const std::string& path() const { return path_; }
  void AddTo(std::vector<pollfd>* fds) const;
  // Reads what has arrived, and answers if the address is known.
  void Serve();
  // Returns the facts, as JSON, that the process with this index has sent; nothing: it has not asked yet.
  std::optional<std::string> FactsOf(std::uint32_t index) const;
  // Answers all processes that have asked, and from now on each that asks.
  void Announce(const std::string& coordinator);

 private:
  struct Asker {
    int fd = -1;
    std::string line;                    // what has arrived
    std::optional<std::uint32_t> index;  // once the whole line has arrived
    std::string facts;
  };

  ScriptBroker(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void Accept();
  // Returns false if the connection is of no more use.
  bool Read(Asker* asker) const;
  static bool TakeQuestion(Asker* asker);
  void AnswerAll();

  std::string path_;
  int fd_;
  bool accepts_ = true;  // false: the process has no descriptor for a connection, so polling the socket cannot wait
  std::vector<Asker> askers_;
  std::string coordinator_;  // empty: not known yet
};

}  // namespace capstan::cli
