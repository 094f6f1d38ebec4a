// RequestFlights: has the processes of a run on this machine write their flight recordings, and waits for the files.
//
// Kind:   function; it sends each process kFlightSignal.
// Limits: waits until `wait_seconds` have passed. Processes on other machines have run directories there.
// Fails:  kInvalid: the run directory keeps no recordings.
// Why:    only a process that holds its file's lock, and blocks the signal, gets it. Another one would end.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::cli {

struct FlightAnswers {
  std::vector<std::string> files;    // written
  std::vector<std::string> missing;  // lines that name the processes that have not written, and say why
};

Result<FlightAnswers> RequestFlights(const std::string& run_dir, double wait_seconds);
// Returns the files in the folder of a run's flight recordings, the newest last.
std::vector<std::string> FlightFilesOf(const std::string& run_dir);

}  // namespace capstan::cli
