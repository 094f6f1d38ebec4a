#include "cli/doctor/machine_facts.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "cli/run/build_info.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

std::string ModelOfProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != line.npos) return line.substr(line.find(": ") + 2);
  }
  return "";
}

unsigned CoresOfProcess() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

// Returns the processors that the group's files allow. Version 2 has both numbers in one file, where the first may be
// "max"; in version 1 a negative quota means no limit.
std::optional<double> QuotaOfGroup(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream unified(group / "cpu.max");
  if (unified >> quota >> period && period > 0) return quota / period;
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

// Lowers the quota to that of the group and of each group above it, up to `top`.
void LowerByGroup(fs::path group, const fs::path& top, std::optional<double>* quota) {
  for (;; group = group.parent_path()) {
    const std::optional<double> own = QuotaOfGroup(group);
    if (own && (!*quota || *own < **quota)) *quota = own;
    if (group == top || !group.has_relative_path()) return;
  }
}

std::uint64_t Soft(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_cur;
}

std::uint64_t Hard(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_max;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<double> ReadProcessorQuota(const fs::path& root) {
  std::optional<double> quota;
  std::ifstream file(root / "proc/self/cgroup");
  const fs::path unified = root / "sys/fs/cgroup", version_1 = unified / "cpu";
  for (std::string line; std::getline(file, line);) {  // lines are "number:controllers:path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    if (controllers == ",,") LowerByGroup((unified / path).lexically_normal(), unified, &quota);
    if (controllers.find(",cpu,") != controllers.npos) {
      LowerByGroup((version_1 / path).lexically_normal(), version_1, &quota);
    }
  }
  return quota;
}

ProcessorFacts ReadProcessor() {
  ProcessorFacts facts;
  facts.model = ModelOfProcessor();
  facts.has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  facts.cores = CoresOfProcess();
  facts.quota_cores = ReadProcessorQuota();
  return facts;
}

LimitFacts ReadLimits() { return {Soft(RLIMIT_NOFILE), Hard(RLIMIT_NOFILE), Soft(RLIMIT_CORE), Soft(RLIMIT_NPROC)}; }

ClockFacts ReadClock() {
  ClockFacts facts;
  facts.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  facts.built = std::chrono::sys_seconds(std::chrono::seconds(BuildOfThis().commit_time));
  timex state{};  // modes 0: only reads
  if (const int answer = adjtimex(&state); answer >= 0) facts.synchronised = (state.status & STA_UNSYNC) == 0;
  return facts;
}

TerminalFacts ReadTerminal() {
  TerminalFacts facts;
  facts.is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (facts.is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) facts.columns = size.ws_col;
  facts.type = Variable("TERM");
  for (const char* const name : {"LANG", "LC_CTYPE", "LC_ALL"}) {  // the last one that is set counts
    if (std::string value = Variable(name); !value.empty()) facts.locale = std::move(value);
  }
  if (facts.locale.empty()) return facts;
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  facts.has_locale = std::setlocale(LC_CTYPE, facts.locale.c_str()) != nullptr;
  std::setlocale(LC_CTYPE, before.c_str());
  std::string name = facts.locale;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  facts.is_utf8 = name.find("UTF-8") != name.npos || name.find("UTF8") != name.npos;
  return facts;
}

}  // namespace capstan::cli
