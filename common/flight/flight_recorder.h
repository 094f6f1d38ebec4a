// FlightRecorder: the newest events of a process in memory, and the file that they are written to when they are needed.
//
// Kind:   main's thread owns it, opens its file and adds lanes. Each lane is owned by another thread. Any thread, and a
//         signal handler, may call Write.
// Limits: kFlightLanesMax lanes. A folder has kFilesMax files of one process name; the oldest are removed.
// Fails:  OpenFile: the folder cannot be made, or the file not opened.
// Why:    the file is open from the start, and Write takes no memory, so a process that crashes can still write it. The
//         process holds the file's lock: others see by that whether it lives and which signal it takes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file_lock.h"
#include "common/base/status.h"
#include "common/flight/flight_format.h"
#include "common/flight/flight_lane.h"

namespace capstan {

class FlightRecorder {
 public:
  static constexpr std::size_t kFilesMax = 4;

  explicit FlightRecorder(std::string_view process);
  // Removes the file if nothing was written to it.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Makes FOLDER/NAME-PID.flight, for this user only, and removes the oldest files of this name. A recording that an
  // earlier process has left under that name becomes NAME-PID.K.flight.
  Status OpenFile(const std::string& folder);
  // Returns the lane of this name, or a new one; it lives as long as this object. Null: there are too many. Requires
  // that no other thread uses a lane of this name any more.
  FlightLane* AddLane(std::string name);

  // Writes all lanes to the file. `why`: the error that ends the process. `signal`: that of a crash. Returns whether
  // the file is written: there may be none, and another thread may be writing. A request after a failure keeps the
  // failure's reason. Safe in a signal handler.
  bool Write(FlightReason reason, std::string_view why = {}, int signal = 0);

 private:
  bool WriteLane(const FlightLane& lane, std::size_t* offset);

  FlightFileHeader header_;
  std::array<std::unique_ptr<FlightLane>, kFlightLanesMax> lanes_;
  std::atomic<std::size_t> lane_count_{0};
  std::vector<std::byte> copy_;  // one lane; used by the thread that set writing_
  std::string path_;
  std::optional<FileLock> file_;
  std::atomic<bool> writing_{false};
};

// Returns the name of a process's file in the folder of a run's flight files.
std::string FlightFileName(std::string_view process, int pid);

}  // namespace capstan
