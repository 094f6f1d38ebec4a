// Facts of this machine, as the system reports them, for the checks of `capstan doctor`.
//
// Kind:   values, and functions that read the system.
// Fails:  never: a fact that cannot be read counts as unknown.
// Why:    the checks (machine_checks.h) are pure functions of these facts, so that tests can invent machines.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

namespace capstan::cli {

struct ProcessorFacts {
  std::string model;                  // empty: unknown
  bool has_avx2 = false;              // and the other instructions of x86-64-v3
  unsigned cores = 1;                 // on which this process may run
  std::optional<double> quota_cores;  // what the control group allows, in processors; nullopt: no limit
};

inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

struct LimitFacts {
  std::uint64_t open_files = kNoLimit;       // ulimit -n
  std::uint64_t open_files_most = kNoLimit;  // ulimit -Hn: a process may raise its limit up to this
  std::uint64_t core_file_bytes = 0;         // ulimit -c
  std::uint64_t processes = kNoLimit;        // ulimit -u: processes and threads of this user
};

struct ClockFacts {
  std::chrono::sys_seconds now{};
  std::chrono::sys_seconds built{};  // time of the commit that this program was built from; the epoch: unknown
  std::optional<bool> synchronised;  // as the kernel says it; nullopt: it says nothing
};

struct TerminalFacts {
  bool is_terminal = false;  // stderr, where progress is shown
  int columns = 0;
  std::string type;        // TERM
  std::string locale;      // what LC_ALL, LC_CTYPE or LANG names; empty: none
  bool has_locale = true;  // whether that locale is installed
  bool is_utf8 = false;
};

// `root`: the folder that contains proc/ and sys/.
std::optional<double> ReadProcessorQuota(const std::filesystem::path& root = "/");
ProcessorFacts ReadProcessor();
LimitFacts ReadLimits();
ClockFacts ReadClock();
TerminalFacts ReadTerminal();

}  // namespace capstan::cli
