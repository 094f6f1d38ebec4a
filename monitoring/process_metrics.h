// ReadProcess, ReadDisk: the operating system's figures about this process, and about the disk of a folder.
//
// Kind:   functions; ask the system at each call.
// Fails:  a number that cannot be read is 0.
#pragma once

#include <string>

namespace capstan::monitoring {

struct ProcessReading {
  double cpu_seconds = 0;
  double resident_bytes = 0, virtual_bytes = 0;
  double start_time_seconds = 0;  // unix time
  double memory_left_bytes = 0;   // as ReadFreeMemory says
  double threads = 0;
  double open_fds = 0, max_fds = 0;
};

struct DiskReading {
  double size_bytes = 0;
  double free_bytes = 0;  // for this user
};

ProcessReading ReadProcess();
DiskReading ReadDisk(const std::string& folder);

}  // namespace capstan::monitoring
