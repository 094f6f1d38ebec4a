#include "server/storage/room_wait.h"

#include <poll.h>

#include <utility>

#include "common/base/durable_file.h"

namespace capstan::server {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

RoomWait::Options Complete(RoomWait::Options options) {
  if (!options.now) options.now = [] { return Instant(std::chrono::steady_clock::now().time_since_epoch()); };
  if (!options.pause) {
    options.pause = [](Instant time) {
      poll(nullptr, 0, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
    };
  }
  return options;
}

std::string Seconds(Instant time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string Bytes(std::uint64_t bytes) {
  return bytes < kMebibyte ? std::to_string(bytes) + " bytes" : std::to_string(bytes / kMebibyte) + " MiB";
}

Instant ToInstant(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
}

}  // namespace

RoomWait::RoomWait(Options options) : options_(Complete(std::move(options))) {}

Status RoomWait::Write(const std::string& path, const std::function<Status()>& write) {
  Status status = write();
  if (status.code() != Code::kBusy) return status;
  const Instant began = options_.now();
  Instant next_report = began;
  while (status.code() == Code::kBusy) {
    const Instant now = options_.now(), waited = now - began;
    if (Status over = GiveUp(status, waited); !over.ok()) {
      waited_ += waited;
      return over;
    }
    if (now >= next_report) {
      next_report = now + ToInstant(options_.report_seconds);
      Log(Severity::kWarning, "the job waits " + (waited > kLookEvery ? Seconds(waited) + " " : "") +
                                  "for room on the disk: " + status.message() + "; " + Bytes(FreeBytes(path)) +
                                  " are free there, and it goes on by itself when there is room");
    }
    options_.pause(kLookEvery);
    status = write();
  }
  const Instant waited = options_.now() - began;
  waited_ += waited;
  if (status.ok())
    Log(Severity::kInfo, "there is room on the disk again after " + Seconds(waited) + ": the job goes on");
  return status;
}

Status RoomWait::GiveUp(const Status& full, Instant waited) const {
  if (options_.stopped && options_.stopped()) {
    return Refused(full.message() + "; the job was stopped while it waited for room");
  }
  if (options_.stall_seconds <= 0 || waited < ToInstant(options_.stall_seconds)) return {};
  return Timeout(full.message() + "; the job has waited " + Seconds(waited) +
                 " (limits.stall) for room: make some, and --resume");
}

void RoomWait::Log(Severity severity, const std::string& text) const {
  if (options_.on_notice) options_.on_notice({severity, text});
}

}  // namespace capstan::server
