// Trace: what the threads of a process did and when, as a file for Perfetto (ui.perfetto.dev) and chrome://tracing.
//
// Kind:   a Trace is owned by main's thread, which adds lanes before their threads start and writes when those have
//         ended; a lane is owned by one thread, which alone adds spans.
// Limits: kSpansMax spans of a lane, 8 MiB: the newest stay.
// Fails:  kInvalid: a file that cannot be opened; kUnreachable: the disk.
// Why:    a lane is a ring of its own thread's: a span costs a store and no lock. Who is handed no lane (null) pays a
//         comparison.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::monitoring {

class TraceLane {
 public:
  using Time = std::chrono::steady_clock::duration;  // since the clock's epoch: processes of a machine share it
  static constexpr std::size_t kSpansMax = std::size_t{1} << 18;
  static constexpr std::uint64_t kNoStep = UINT64_MAX;

  explicit TraceLane(std::string name) : name_(std::move(name)) {}

  // `what`: a literal. Spans of a lane lie within each other or apart; one within another is added before it.
  void Add(const char* what, Time begin, Time end, std::uint64_t step = kNoStep) {
    const Span span{what, begin, end, step};
    if (spans_.size() < kSpansMax) {
      spans_.push_back(span);
    } else {
      spans_[static_cast<std::size_t>(added_ % kSpansMax)] = span;
    }
    ++added_;
  }
  // Of steady_clock's points in time.
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
  // Makes the file at once, so that a wrong path is known before there is something to lose. `process`: its name.
  static Result<std::unique_ptr<Trace>> Open(const std::string& path, std::string process);

  // Lives as long as the trace.
  TraceLane* AddLane(std::string name);
  // Once.
  Status Write();

 private:
  Trace(std::string path, std::string process, std::ofstream file)
      : path_(std::move(path)), process_(std::move(process)), file_(std::move(file)) {}
  void WriteLane(std::size_t tid, TraceLane* lane, const std::string& pid);

  const std::string path_, process_;
  std::ofstream file_;
  std::vector<std::unique_ptr<TraceLane>> lanes_;
};

}  // namespace capstan::monitoring
