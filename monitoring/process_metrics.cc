#include "monitoring/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/free_memory.h"

namespace capstan::monitoring {
namespace {

// Returns the fields of /proc/self/stat from field 3 on, as in proc(5). Field 2, the program's name, may contain any
// character.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double Number(const std::vector<std::string>& fields, std::size_t field) {
  const std::size_t index = field - 3;
  if (index >= fields.size()) return 0;
  double value = 0;
  std::istringstream(fields[index]) >> value;
  return value;
}

double BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("btime ")) continue;
    double seconds = 0;
    std::istringstream(line.substr(6)) >> seconds;
    return seconds;
  }
  return 0;
}

double OpenFileDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator it("/proc/self/fd", error), end;
  double count = 0;
  while (!error && it != end) {
    ++count;
    it.increment(error);
  }
  return std::max(0.0, count - 1);  // one entry is the iterator's own descriptor
}

}  // namespace

ProcessReading ReadProcess() {
  const auto fields = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessReading reading;
  reading.cpu_seconds = (Number(fields, 14) + Number(fields, 15)) / ticks;
  reading.threads = Number(fields, 20);
  reading.start_time_seconds = BootTimeSeconds() + Number(fields, 22) / ticks;
  reading.virtual_bytes = Number(fields, 23);
  reading.resident_bytes = Number(fields, 24) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const FreeMemory free = ReadFreeMemory();
  reading.memory_left_bytes = static_cast<double>(std::min(free.resident.left_bytes, free.address_space.LeftBytes()));
  reading.open_fds = OpenFileDescriptors();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) reading.max_fds = static_cast<double>(limit.rlim_cur);
  return reading;
}

DiskReading ReadDisk(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error) return {};
  return {static_cast<double>(space.capacity), static_cast<double>(space.available)};
}

}  // namespace capstan::monitoring
