#include "monitoring/trace.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace capstan::monitoring {

namespace {

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Microseconds(TraceLane::Time time) {
  const auto ns = static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", ns / 1000, ns % 1000);
  return text.data();
}

// Returns a metadata event, with which the viewers name a process or a thread.
std::string NameOf(const char* kind, const std::string& pid, std::size_t tid, const std::string& name) {
  return R"({"ph":"M","name":")" + std::string(kind) + R"(","pid":)" + pid + R"(,"tid":)" + std::to_string(tid) +
         R"(,"args":{"name":)" + Quoted(name) + "}}";
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::Open(const std::string& path, std::string process) {
  errno = 0;
  if (std::ofstream file(path, std::ios::binary | std::ios::trunc); !file) {
    return Invalid("--trace " + path + ": cannot write there: " + std::strerror(errno != 0 ? errno : EIO) +
                   "; name a file in a folder that exists");
  }
  return std::unique_ptr<Trace>(new Trace(path, std::move(process)));
}

TraceLane* Trace::AddLane(std::string name) {
  lanes_.push_back(std::make_unique<TraceLane>(std::move(name)));
  return lanes_.back().get();
}

Status Trace::Write() {
  const std::string pid = std::to_string(getpid());
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);  // opened again, so that no child process inherits it
  file << R"({"displayTimeUnit":"ms","traceEvents":[)" << '\n' << NameOf("process_name", pid, 0, process_);
  for (std::size_t i = 0; i < lanes_.size(); ++i) WriteLane(i + 1, lanes_[i].get(), pid, &file);
  file << "\n]}\n";
  file.close();
  return file ? Status() : Unreachable("cannot write the trace " + path_ + "; is the disk full?");
}

void Trace::WriteLane(std::size_t tid, TraceLane* lane, const std::string& pid, std::ostream* out) {
  std::string name = lane->name_;
  if (lane->added_ > lane->spans_.size()) {
    name += " (" + std::to_string(lane->added_ - lane->spans_.size()) + " older spans are left out)";
  }
  *out << ",\n" << NameOf("thread_name", pid, tid, name);
  // Spans are written in the order of time, outer spans first.
  std::stable_sort(lane->spans_.begin(), lane->spans_.end(), [](const TraceLane::Span& a, const TraceLane::Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  const std::string whose = R"(,"pid":)" + pid + R"(,"tid":)" + std::to_string(tid);
  for (const TraceLane::Span& span : lane->spans_) {
    *out << ",\n"
         << R"({"ph":"X","name":")" << span.what << '"' << whose << R"(,"ts":)" << Microseconds(span.begin)
         << R"(,"dur":)" << Microseconds(std::max(span.end - span.begin, TraceLane::Time{}));
    if (span.step != TraceLane::kNoStep) *out << R"(,"args":{"step":)" << span.step << '}';
    *out << '}';
  }
}

}  // namespace capstan::monitoring
