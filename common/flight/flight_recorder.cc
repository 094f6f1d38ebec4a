#include "common/flight/flight_recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "common/base/durable_file.h"
#include "common/base/hash.h"
#include "common/base/write_at.h"
#include "common/flight/flight_text.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLaneBytes = sizeof(FlightLaneHeader) + FlightLane::Records::kBytes + FlightLane::Events::kBytes;

// Safe in a signal handler.
std::uint64_t NanosecondsOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

// Returns a hash of what names CLOCK_MONOTONIC: the start of the machine, and the process's namespace of clocks.
std::uint64_t ClockHash() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(boot, text);
  std::error_code error;
  text += fs::read_symlink("/proc/self/ns/time", error).string();
  return Hash64(std::as_bytes(std::span(text)));
}

constexpr std::string_view kEnding = ".flight";
// Another process may look at the file, and has its lock for a moment.
constexpr double kLockSeconds = 1;

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether the file is one of a process of this name: NAME-PID.flight, or NAME-PID.K.flight.
bool IsOf(const std::string& file, std::string_view process) {
  if (!file.starts_with(process) || !file.ends_with(kEnding)) return false;
  const std::string_view rest =
      std::string_view(file).substr(process.size(), file.size() - process.size() - kEnding.size());
  if (!rest.starts_with('-')) return false;
  const std::size_t dot = rest.find('.');
  return IsNumber(rest.substr(1, dot == rest.npos ? dot : dot - 1)) &&
         (dot == rest.npos || IsNumber(rest.substr(dot + 1)));
}

// Renames NAME-PID.flight to NAME-PID.K.flight, with the lowest number K that is free.
Status KeepFormer(const std::string& path) {
  const std::string stem = path.substr(0, path.size() - kEnding.size());
  std::string former;
  std::error_code error;
  for (int number = 1; former.empty() || fs::exists(former, error); ++number) {
    former = stem + "." + std::to_string(number) + std::string(kEnding);
  }
  return rename(path.c_str(), former.c_str()) == 0 ? Status() : DiskFailure("rename", path, errno);
}

// Makes the file, and locks it. A file that an earlier process of the same number has written keeps its bytes under
// another name: in a container the number is the same at each start.
Result<FileLock> MakeFile(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(FileLock file, FileLock::Acquire(path, kLockSeconds));
  struct stat found {};
  if (fstat(file.descriptor(), &found) != 0) return DiskFailure("look at", path, errno);
  if (!S_ISREG(found.st_mode)) return Invalid(path + ": it is no file; remove it");
  if (found.st_size == 0) return file;
  CAPSTAN_RETURN_IF_ERROR(KeepFormer(path));
  return FileLock::Acquire(path, kLockSeconds);
}

// Removes the oldest files of this name so that `most` are left. A file that a process still uses stays.
void RemoveOldest(const std::string& folder, std::string_view process, std::size_t most) {
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    const fs::file_time_type time = fs::last_write_time(entry->path(), gone);
    if (!gone && IsOf(entry->path().filename(), process)) files.emplace_back(time, entry->path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + most < files.size(); ++i) {
    if (FileLock::Acquire(files[i].second, 0).ok()) fs::remove(files[i].second, error);
  }
}

}  // namespace

std::string FlightFileName(std::string_view process, int pid) {
  return std::string(process) + "-" + std::to_string(pid) + std::string(kEnding);
}

FlightRecorder::FlightRecorder(std::string_view process) {
  header_.magic = kFlightMagic;
  header_.version = kFlightVersion;
  header_.header_bytes = sizeof header_;
  header_.message_types = HashOfMessageTypes();
  header_.clock = ClockHash();
  header_.pid = static_cast<std::uint32_t>(getpid());
  PutText(process.substr(0, kFlightNameBytesMax - 1), &header_.process);
}

FlightRecorder::~FlightRecorder() {
  if (file_ && header_.writes == 0) (void)unlink(path_.c_str());
}

Status FlightRecorder::OpenFile(const std::string& folder) {
  CAPSTAN_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string_view process = TextIn(header_.process);
  const std::string path = folder + "/" + FlightFileName(process, getpid());
  CAPSTAN_ASSIGN_OR_RETURN(FileLock file, MakeFile(path));
  copy_.resize(kLaneBytes);
  path_ = path;
  file_.emplace(std::move(file));
  RemoveOldest(folder, process, kFilesMax);
  return {};
}

FlightLane* FlightRecorder::AddLane(std::string name) {
  const std::size_t count = lane_count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes_[i]->name() == name) return lanes_[i].get();
  }
  if (count >= lanes_.size()) return nullptr;
  name.resize(std::min(name.size(), kFlightNameBytesMax - 1));
  lanes_[count] = std::make_unique<FlightLane>(std::move(name));
  lane_count_.store(count + 1, std::memory_order_release);
  return lanes_[count].get();
}

bool FlightRecorder::Write(FlightReason reason, std::string_view why, int signal) {
  if (!file_ || writing_.exchange(true, std::memory_order_acq_rel)) return false;
  if (reason != FlightReason::kRequest || header_.reason != FlightReason::kFailure) {
    header_.reason = reason;
    header_.signal = static_cast<std::uint32_t>(signal);
    PutText(why, &header_.why);
  }
  header_.monotonic_ns = NanosecondsOf(CLOCK_MONOTONIC);
  header_.realtime_ns = NanosecondsOf(CLOCK_REALTIME);
  header_.lanes = static_cast<std::uint32_t>(lane_count_.load(std::memory_order_acquire));
  header_.hash = 0;
  std::size_t offset = sizeof header_;
  bool ok = true;
  for (std::size_t i = 0; i < header_.lanes && ok; ++i) ok = WriteLane(*lanes_[i], &offset);
  if (ok) {
    ++header_.writes;
    ok = WriteAt(file_->descriptor(), std::as_bytes(std::span(&header_, 1)), 0);  // last: it has the others' hash
  }
  writing_.store(false, std::memory_order_release);
  return ok;
}

bool FlightRecorder::WriteLane(const FlightLane& lane, std::size_t* offset) {
  FlightLaneHeader header;
  PutText(lane.name(), &header.name);
  header.records_written = lane.records().written();
  header.events_written = lane.events().written();
  header.record_capacity = kFlightRecordsMax;
  header.event_capacity = kFlightEventsMax;
  std::byte* const records = copy_.data() + sizeof header;
  std::memcpy(copy_.data(), &header, sizeof header);
  lane.records().CopyTo(records);
  lane.events().CopyTo(records + FlightLane::Records::kBytes);
  header_.hash = Hash64(copy_, header_.hash);
  const std::size_t at = std::exchange(*offset, *offset + copy_.size());
  return WriteAt(file_->descriptor(), copy_, at);
}

}  // namespace capstan
