// BoundedOutput: writes text to a terminal, pipe or socket that may accept none for a while. Only Drain waits for room.
//
// Kind:   owned by one thread.
// Limits: while text waits for room, more text is refused if the sum would exceed kWaitingBytesMax. Drain waits no
//         longer than its argument.
// Fails:  text is lost if the output is closed or its disk is full.
// Why:    a terminal after Ctrl-S, or a pipe with a busy reader, must not block the process that writes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::cli {

class BoundedOutput {
 public:
  static constexpr std::size_t kWaitingBytesMax = std::size_t{64} << 10;

  // `fd` outlives this object; its flags are not changed.
  explicit BoundedOutput(int fd);
  ~BoundedOutput();
  BoundedOutput(const BoundedOutput&) = delete;
  BoundedOutput& operator=(const BoundedOutput&) = delete;

  // Accepts all of the text and returns true, or accepts nothing and returns false if too much text waits already. If
  // no text waits, any length is accepted.
  [[nodiscard]] bool Write(std::string_view text);
  // Writes as much of the waiting text as the output accepts now.
  void Flush();
  // Flushes until no text waits or `patience` has passed.
  void Drain(std::chrono::milliseconds patience);
  bool waiting() const { return !waiting_.empty(); }

 private:
  const int fd_;
  const int own_fd_;  // the same pipe or terminal, opened again; negative: it cannot be opened again
  std::string waiting_;
};

}  // namespace capstan::cli
