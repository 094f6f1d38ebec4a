#include "bench/machine_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "common/base/file_text.h"

namespace capstan::bench {
namespace {

// Empty if it cannot be read: a process may end between the two calls that open and read its file.
std::string ContentOf(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  const Result<std::string> text = ReadFileText(path, kMost);
  return text.ok() ? *text : std::string();
}

double TicksPerSecond() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

MachineTimes ReadMachineTimes() {
  return ParseMachineTimes(ContentOf("/proc/stat"), TicksPerSecond()).value_or(MachineTimes{});
}

// A process that ends meanwhile is left out.
std::vector<ProcessTime> ReadProcessTimes() {
  std::vector<ProcessTime> processes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    if (const auto process = ParseProcessTime(ContentOf(entry->path() / "stat"), TicksPerSecond())) {
      processes.push_back(*process);
    }
  }
  return processes;
}

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Of this process's threads, and of its children that have ended.
double ReadSelfSeconds() {
  double seconds = 0.0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(who, &usage) == 0) seconds += SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  }
  return seconds;
}

double ReadDescendantSeconds() { return SecondsOfDescendants(getpid(), ReadProcessTimes()); }

double ShareOf(double seconds, double available) {
  return available > 0.0 ? std::clamp(seconds / available, 0.0, 1.0) : 0.0;
}

}  // namespace

std::optional<MachineTimes> ParseMachineTimes(const std::string& text, double ticks_per_second) {
  std::istringstream words(text);
  std::string cpu;
  std::array<double, 8> ticks{};  // user, nice, system, idle, waiting for a disk, interrupts, softirq, steal
  words >> cpu;
  for (double& one : ticks) words >> one;
  if (!words || cpu != "cpu") return std::nullopt;
  MachineTimes times;
  times.busy = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / ticks_per_second;
  times.idle = (ticks[3] + ticks[4]) / ticks_per_second;
  times.host = ticks[7] / ticks_per_second;
  return times;
}

std::optional<ProcessTime> ParseProcessTime(const std::string& text, double ticks_per_second) {
  const std::size_t name_end = text.rfind(')');  // the name may have spaces and parentheses
  if (name_end == text.npos) return std::nullopt;
  ProcessTime process;
  std::istringstream before(text), after(text.substr(name_end + 1));
  before >> process.id;
  std::string skipped;
  after >> skipped >> process.parent;
  for (int field = 5; field < 14; ++field) after >> skipped;
  for (int field = 14; field < 18; ++field) {  // user and system time, and those of children that have ended
    double ticks = 0.0;
    after >> ticks;
    process.seconds += ticks / ticks_per_second;
  }
  if (!before || !after) return std::nullopt;
  return process;
}

double SecondsOfDescendants(pid_t root, const std::vector<ProcessTime>& processes) {
  std::multimap<pid_t, const ProcessTime*> by_parent;
  double seconds = 0.0;
  for (const ProcessTime& process : processes) {
    if (process.id != root) by_parent.emplace(process.parent, &process);
  }
  std::vector<pid_t> parents = {root};
  while (!parents.empty()) {
    const auto [begin, end] = by_parent.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      seconds += child->second->seconds;
      parents.push_back(child->second->id);
    }
  }
  return seconds;
}

void MachineUse::Add(const MachineUse& more) {
  available += more.available;
  busy += more.busy;
  own += more.own;
  host += more.host;
}

double MachineUse::ProcessesShare() const { return ShareOf(busy - own, available); }

double MachineUse::HostShare() const { return ShareOf(host, available); }

MachineUse UseBetween(const MachineTimes& before, const MachineTimes& after, double own_seconds) {
  MachineUse use;
  use.busy = after.busy - before.busy;
  use.host = after.host - before.host;
  use.available = use.busy + use.host + after.idle - before.idle;
  use.own = own_seconds;
  return use;
}

UseMeter::UseMeter() : descendants_(ReadDescendantSeconds()), self_(ReadSelfSeconds()), machine_(ReadMachineTimes()) {}

MachineUse UseMeter::UseSoFar() const {
  const MachineTimes machine = ReadMachineTimes();
  const double self = ReadSelfSeconds();
  return UseBetween(machine_, machine, self - self_ + ReadDescendantSeconds() - descendants_);
}

}  // namespace capstan::bench
