// Trace: records what a process's threads do and when, as a file for Perfetto (ui.perfetto.dev) and chrome://tracing.
//
// Kind:   main's thread owns a Trace. It adds each lane before the lane is used, and writes the file when no thread
//         uses a lane any more. One thread owns each lane, and only that thread adds spans.
// Limits: kSpansMax spans per lane, 8 MiB; the newest are kept.
// Fails:  kInvalid: the file cannot be opened; kUnreachable: the disk fails.
// Why:    a lane is a ring that only its own thread writes, so a span costs a store and no lock. Where there is no
//         trace, a thread's lane is null, and a span costs a comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::monitoring {

class TraceLane {
 public:
  using Time = std::chrono::steady_clock::duration;  // since the clock's epoch, which the processes of a machine share
  static constexpr std::size_t kSpansMax = std::size_t{1} << 18;
  static constexpr std::uint64_t kNoStep = UINT64_MAX;

  explicit TraceLane(std::string name) : name_(std::move(name)) {}

  // Adds a span. `what`: a string literal. Two spans of a lane must be nested or disjoint.
  void Add(const char* what, Time begin, Time end, std::uint64_t step = kNoStep) {
    const Span span{what, begin, end, step};
    if (spans_.size() < kSpansMax) {
      spans_.push_back(span);
    } else {
      spans_[static_cast<std::size_t>(added_ % kSpansMax)] = span;
    }
    ++added_;
  }
  // Adds a span between two points of steady_clock's time.
  void Add(const char* what, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end,
           std::uint64_t step = kNoStep) {
    Add(what, begin.time_since_epoch(), end.time_since_epoch(), step);
  }

 private:
  friend class Trace;
  struct Span {
    const char* what;
    Time begin, end;
    std::uint64_t step;
  };

  const std::string name_;
  std::vector<Span> spans_;
  std::uint64_t added_ = 0;
};

class Trace {
 public:
  // Makes the file at once, so that a wrong path fails at the start and not at the end. `process`: the process's name.
  static Result<std::unique_ptr<Trace>> Open(const std::string& path, std::string process);

  // Makes a lane, which lives as long as the trace.
  TraceLane* AddLane(std::string name);
  // Writes the lanes to the file. May be called once.
  Status Write();

 private:
  Trace(std::string path, std::string process) : path_(std::move(path)), process_(std::move(process)) {}
  static void WriteLane(std::size_t tid, TraceLane* lane, const std::string& pid, std::ostream* out);

  const std::string path_, process_;
  std::vector<std::unique_ptr<TraceLane>> lanes_;
};

}  // namespace capstan::monitoring
