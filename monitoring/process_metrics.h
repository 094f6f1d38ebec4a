// ReadProcess: the operating system's figures about this process.
//
// Kind:   function; reads files of /proc at each call.
// Fails:  a number that cannot be read is 0.
#pragma once

namespace capstan::monitoring {

struct ProcessReading {
  double cpu_seconds = 0;
  double resident_bytes = 0, virtual_bytes = 0;
  double start_time_seconds = 0;  // unix time
  double threads = 0;
  double open_fds = 0, max_fds = 0;
};

ProcessReading ReadProcess();

}  // namespace capstan::monitoring
