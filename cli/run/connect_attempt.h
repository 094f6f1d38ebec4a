// ConnectAttempt: a TCP connection that is tried and closed again, to find out whether a process listens at an address.
//
// Kind:   owned by one thread; its socket does not block. A name is looked up in Begin, which may take seconds.
#pragma once

#include <string>

namespace capstan::cli {

class ConnectAttempt {
 public:
  ConnectAttempt() = default;
  ~ConnectAttempt() { Close(); }
  ConnectAttempt(ConnectAttempt&& other) noexcept;
  ConnectAttempt& operator=(ConnectAttempt&& other) noexcept;

  // Begins to connect to `address` (host:port), after giving up what was begun before.
  void Begin(const std::string& address);
  // Whether there is an attempt that has not ended. Looks at the socket.
  bool IsOpen();
  // Ends an open attempt, which then has failed with this reason.
  void GiveUp(std::string reason);
  // Returns why the attempt failed; empty if it did not.
  const std::string& failure() const { return failure_; }

 private:
  void Close();

  int fd_ = -1;  // negative: the attempt is over
  std::string failure_;
};

}  // namespace capstan::cli
