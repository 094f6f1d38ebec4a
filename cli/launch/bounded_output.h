// BoundedOutput: text for a terminal, pipe or socket that may take none for a while. Writing never waits.
//
// Kind:   owned by one thread.
// Limits: kWaitingBytesMax of text wait until there is room; more is refused. Drain waits at most as long as it is told.
// Fails:  text for an output that is closed, or for a full disk, is lost.
// Why:    a terminal after Ctrl-S, or a pipe whose reader is busy, must not keep a process from its work.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::cli {

class BoundedOutput {
 public:
  static constexpr std::size_t kWaitingBytesMax = std::size_t{64} << 10;

  // `fd` outlives this, and keeps its own flags.
  explicit BoundedOutput(int fd);
  ~BoundedOutput();
  BoundedOutput(const BoundedOutput&) = delete;
  BoundedOutput& operator=(const BoundedOutput&) = delete;

  // Takes all of the text or nothing; false: there is no room for it. Where nothing waits, it is taken however long it is.
  [[nodiscard]] bool Write(std::string_view text);
  // Writes what the output takes now of the text that waits.
  void Flush();
  // The same, until nothing waits or the time is over.
  void Drain(std::chrono::milliseconds patience);
  bool waiting() const { return !waiting_.empty(); }

 private:
  const int fd_;
  const int own_fd_;  // of the same pipe or terminal, negative: none
  std::string waiting_;
};

}  // namespace capstan::cli
