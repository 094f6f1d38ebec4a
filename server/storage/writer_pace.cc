#include "server/storage/writer_pace.h"

#include <cstdint>
#include <fstream>

namespace capstan::server {

WriterPace::Duration TimeWithoutProcessor() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::uint64_t ran = 0, waited = 0;  // nanoseconds
  file >> ran >> waited;
  return WriterPace::Duration(file ? waited : 0);
}

}  // namespace capstan::server
