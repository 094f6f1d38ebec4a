#include "cli/doctor/disk_check.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "common/base/free_memory.h"

namespace capstan::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kSyncsMax = 15;
constexpr std::uint64_t kRoomLeast = std::uint64_t{16} << 20;  // logs, metrics and a small job's first snapshots
constexpr std::uint64_t kRoomUsual = std::uint64_t{1} << 30;
constexpr double kSlowSync = 0.05, kSlowWrite = 20 << 20;  // seconds; bytes a second

struct KnownKind {
  std::uint32_t magic;  // as statfs has it
  const char* name;
};
constexpr std::array<KnownKind, 8> kKinds = {{{0x01021994, "tmpfs"},
                                              {0x6969, "NFS"},
                                              {0xFF534D42, "CIFS"},
                                              {0xFE534D42, "SMB"},
                                              {0x65735546, "FUSE"},
                                              {0x0BD00BD0, "Lustre"},
                                              {0x794C7630, "overlayfs"},
                                              {0xEF53, "ext4"}}};

std::string KindOf(const std::string& folder) {
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return "";
  const auto known = std::find_if(kKinds.begin(), kKinds.end(), [&](const KnownKind& kind) {
    return kind.magic == static_cast<std::uint32_t>(info.f_type);
  });
  return known == kKinds.end() ? "" : known->name;
}

std::string ExistingFolder(const std::string& run_dir) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(run_dir, error).lexically_normal();
  while (!std::filesystem::is_directory(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder.string();
}

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool WriteAll(int fd, const std::vector<char>& bytes, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const ssize_t written = write(fd, bytes.data() + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

// Measures the median time of an fsync. Returns false, with errno set, if the disk fails.
bool MeasureSync(int fd, const std::vector<char>& bytes, Clock::time_point deadline, DiskFacts* facts) {
  std::vector<double> seconds;
  while (seconds.size() < kSyncsMax && (seconds.empty() || Clock::now() < deadline)) {
    const Clock::time_point start = Clock::now();
    if (!WriteAll(fd, bytes, 4096) || fsync(fd) != 0) return false;
    seconds.push_back(SecondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  facts->sync_seconds = seconds[seconds.size() / 2];
  return true;
}

// Measures how fast bytes get to the disk. Each chunk is on the disk before the next one, so one slow chunk is the most
// that the deadline can be missed by.
bool MeasureWrite(int fd, const std::vector<char>& bytes, Clock::time_point deadline, DiskFacts* facts) {
  const std::uint64_t most = std::min(kProbeBytesMax, facts->free_bytes / 4);
  const Clock::time_point start = Clock::now();
  std::uint64_t written = 0;
  while (written + kChunkBytes <= most && Clock::now() < deadline) {
    if (!WriteAll(fd, bytes, kChunkBytes) || fdatasync(fd) != 0) return false;
    written += kChunkBytes;
  }
  if (written > 0) facts->write_bytes_per_second = static_cast<double>(written) / std::max(SecondsSince(start), 1e-9);
  return true;
}

// Opens a file that vanishes when it is closed, even if this process is killed.
int OpenNameless(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  // Not every file system has files without a name (O_TMPFILE). There the name is removed at once.
  std::string path = folder + "/.capstan-doctor-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

std::string SpeedText(const DiskFacts& facts) {
  std::array<char, 80> text{};
  if (facts.sync_seconds)
    std::snprintf(text.data(), text.size(), "; an fsync takes %.1f ms", *facts.sync_seconds * 1e3);
  std::string words = text.data();
  if (!facts.write_bytes_per_second) return words;
  std::snprintf(text.data(), text.size(), ", it writes %.0f MB/s", *facts.write_bytes_per_second / 1e6);
  return words + text.data();
}

std::string RoomNeeded(std::uint64_t snapshot_bytes, std::uint64_t snapshots) {
  return std::to_string(snapshots) + " snapshots of " + MemoryText(snapshot_bytes) +
         " (snapshot.keep, and the one that is being written)";
}

}  // namespace

DiskFacts MeasureDisk(const std::string& run_dir) {
  DiskFacts facts;
  facts.folder = ExistingFolder(run_dir);
  facts.kind = KindOf(facts.folder);
  struct statvfs info {};
  if (statvfs(facts.folder.c_str(), &info) == 0) {
    facts.free_bytes = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
    if (info.f_files > 0) facts.free_files = info.f_favail;
  }
  const int fd = OpenNameless(facts.folder);
  const std::vector<char> bytes(kChunkBytes, 'x');
  const Clock::time_point start = Clock::now();
  const bool works = fd >= 0 && MeasureSync(fd, bytes, start + kProbeTime / 3, &facts) &&
                     MeasureWrite(fd, bytes, start + kProbeTime, &facts);
  if (!works) facts.problem = std::strerror(errno);
  if (fd >= 0) close(fd);
  return facts;
}

Finding CheckDisk(const DiskFacts& facts, std::uint64_t snapshot_bytes, std::uint64_t snapshots) {
  const std::string place = facts.folder + (facts.kind.empty() ? "" : " (" + facts.kind + ")");
  const std::string text = place + " has " + MemoryText(facts.free_bytes) + " free" + SpeedText(facts);
  const std::string elsewhere = "make room, or give --run-dir a folder on another disk";
  if (!facts.problem.empty()) {
    return Problem("disk", "nothing can be written in " + place + ": " + facts.problem, elsewhere);
  }
  if (facts.free_bytes < kRoomLeast) {
    return Problem("disk", text, "a job needs " + MemoryText(kRoomLeast) + " for logs and snapshots; " + elsewhere);
  }
  if (facts.free_files && *facts.free_files < 1000) {
    return Problem("disk", text + ", and can hold only " + std::to_string(*facts.free_files) + " more files",
                   "delete files that nobody needs (df -i counts them), or give --run-dir a folder on another disk");
  }
  const std::uint64_t needed = snapshot_bytes * snapshots;
  if (facts.free_bytes < snapshot_bytes) {
    return Problem("disk", text + ", and one snapshot of this job takes " + MemoryText(snapshot_bytes), elsewhere);
  }
  if (facts.free_bytes < needed) {
    return Warning("disk", text + ", and the job keeps " + RoomNeeded(snapshot_bytes, snapshots),
                   "without room training goes on and no snapshot is taken; " + elsewhere + ", or lower snapshot.keep");
  }
  if (facts.free_bytes < kRoomUsual && needed == 0) {
    return Warning("disk", text, "that is enough for small jobs; capstan doctor JOB.toml says what a job needs");
  }
  if (facts.kind == "tmpfs") {
    return Warning("disk", text + "; it is in memory, and empty when the machine starts again",
                   "a run that is to survive that needs a --run-dir on a disk");
  }
  const bool slow =
      facts.sync_seconds.value_or(0) > kSlowSync || facts.write_bytes_per_second.value_or(1e12) < kSlowWrite;
  if (!slow) return Good("disk", text);
  return Warning("disk", text,
                 "that is slow: snapshots take long, and with acknowledge = \"durable\" each push waits for an fsync; "
                 "use a local disk");
}

}  // namespace capstan::cli
