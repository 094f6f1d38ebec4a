#include "cli/doctor/machine_checks.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace capstan::cli {
namespace {

constexpr std::uint64_t kFilesLeast = 64;    // below it not even one worker's sockets and files fit
constexpr std::uint64_t kFilesUsual = 1024;  // what systems give; many shards and token files need more
constexpr std::uint64_t kMemoryLeast = std::uint64_t{256} << 20;  // a launcher and a few empty processes
constexpr std::uint64_t kMemoryUsual = std::uint64_t{1} << 30;
constexpr std::uint64_t kProcessesLeast = 64;  // threads of a small job

std::string Number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string CountOf(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string DayText(std::chrono::sys_seconds time) {
  const std::time_t seconds = time.time_since_epoch().count();
  tm day{};
  gmtime_r(&seconds, &day);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &day);
  return text.data();
}

std::string LimitWords(std::uint64_t limit) { return limit == kNoLimit ? "no limit" : std::to_string(limit); }

}  // namespace

Finding CheckBuild(const Build& build) {
  const std::string text = "capstan " + build.version + " (commit " + build.commit + "), " + build.type +
                           ", compiled by " + build.compiler + ", libzmq " + build.libzmq;
  if (!build.sanitizers.empty()) {
    return Warning("build", text + ", with the sanitizers " + build.sanitizers,
                   "it is several times slower than other builds; use one of the preset \"release\" for real jobs");
  }
  if (build.type == "Debug") {
    return Warning("build", text, "it is not optimised; use one of the preset \"release\" for real jobs");
  }
  return Good("build", text);
}

Finding CheckProcessor(const ProcessorFacts& facts) {
  std::string text = (facts.model.empty() ? "unknown processor" : facts.model) + ", " + CountOf(facts.cores, "core");
  if (!facts.has_avx2) {
    return Problem("processor", text + ", without AVX2, FMA and BMI2, which capstan's arithmetic needs",
                   "servers and capstan-worker would end with \"Illegal instruction\"; use a machine from 2015 or "
                   "later, or a virtual machine that passes its processor's instructions on");
  }
  text += ", with AVX2";
  if (!facts.quota_cores || *facts.quota_cores >= facts.cores) return Good("processor", text);
  text += "; the control group allows " + Number(*facts.quota_cores) + " of them at a time";
  return Warning("processor", text,
                 "threads beyond that wait for their turn: set worker.threads so that all workers here have that many "
                 "together, or give the container more");
}

Finding CheckFreeMemory(const FreeMemory& free) {
  std::string text = free.resident.name.empty()
                         ? "no limit of memory is known"
                         : free.resident.name + " has " + MemoryText(free.resident.left_bytes) + " of memory free";
  if (free.address_space.limit_bytes != kNoLimit) {
    text +=
        "; the address space of each process (ulimit -v) is limited to " + MemoryText(free.address_space.limit_bytes);
  }
  const std::uint64_t left = std::min(free.resident.left_bytes, free.address_space.LeftBytes());
  if (left < kMemoryLeast) {
    return Problem("memory", text,
                   "even a small job needs " + MemoryText(kMemoryLeast) + "; free some, or raise the limit");
  }
  if (left < kMemoryUsual) {
    return Warning("memory", text, "that is enough for small jobs; capstan doctor JOB.toml says what a job needs");
  }
  return Good("memory", text);
}

Finding CheckOpenFiles(const LimitFacts& facts) {
  const std::string text = "a process may have " + LimitWords(facts.open_files) +
                           " files open (ulimit -n), and up to " + LimitWords(facts.open_files_most) +
                           " if it asks for more, as servers and workers do";
  const std::string raise =
      "raise the hard limit: ulimit -Hn, LimitNOFILE= of a systemd unit, or nofile in "
      "/etc/security/limits.conf";
  if (facts.open_files_most < kFilesLeast) {
    return Problem("open files", text, "a job needs at least " + std::to_string(kFilesLeast) + "; " + raise);
  }
  if (facts.open_files_most < kFilesUsual) {
    return Warning("open files", text, "each connection and each file of tokens takes one; " + raise);
  }
  return Good("open files", text);
}

Finding CheckCoreFiles(const LimitFacts& facts) {
  if (facts.core_file_bytes == 0) {
    return Good("core files",
                "a process that crashes leaves no core file (ulimit -c is 0); ulimit -c unlimited would "
                "leave one, which helps to find a bug");
  }
  return Good("core files", "a process that crashes may leave a core file" +
                                (facts.core_file_bytes == kNoLimit ? std::string(" of any size")
                                                                   : " of up to " + MemoryText(facts.core_file_bytes)) +
                                ", as large as its memory; processes with keys leave none");
}

Finding CheckProcesses(const LimitFacts& facts) {
  const std::string text = "this user may have " + LimitWords(facts.processes) + " processes and threads (ulimit -u)";
  if (facts.processes >= kProcessesLeast) return Good("processes", text);
  return Warning("processes", text,
                 "a job has a few threads for each process and one for each core of a worker; raise "
                 "ulimit -u");
}

Finding CheckClock(const ClockFacts& facts) {
  const std::string now = "the clock says " + DayText(facts.now);
  if (facts.now < facts.built) {
    return Problem("clock", now + ", which is before this program's commit, " + DayText(facts.built),
                   "set the clock (timedatectl set-ntp true, or chronyd -q): keys that expire, names of runs and "
                   "curves go wrong with it");
  }
  if (!facts.synchronised) return Good("clock", now + "; the kernel does not say whether it is synchronised");
  if (*facts.synchronised) return Good("clock", now + " and is synchronised");
  return Warning("clock", now + ", and the kernel says that it is not synchronised",
                 "run chronyd or systemd-timesyncd, so that the logs of several machines can be compared and keys "
                 "expire when they should");
}

Finding CheckTerminal(const TerminalFacts& facts) {
  const bool dumb = facts.type.empty() || facts.type == "dumb";
  std::string text = !facts.is_terminal ? "stderr is no terminal: progress is a line every few seconds"
                     : dumb             ? "the terminal moves no cursor (TERM is \"" + facts.type + "\")"
                            : "terminal " + facts.type + " of " + std::to_string(facts.columns) + " columns";
  if (facts.locale.empty()) return Good("terminal", text + "; no locale is set");
  text += "; locale " + facts.locale;
  if (facts.has_locale) return Good("terminal", text + (facts.is_utf8 ? "" : ", which is not UTF-8"));
  return Warning("terminal", text + ", which this machine does not have",
                 "programs of your own may fall back to ASCII: set LC_ALL=C.UTF-8, or install that locale");
}

}  // namespace capstan::cli
