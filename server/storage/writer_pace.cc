#include "server/storage/writer_pace.h"

#include <cstdint>
#include <fstream>

namespace capstan::server {

ProcessorTime ReadProcessorTime() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t ran = 0, waited = 0;  // nanoseconds
  if (!(file >> ran >> waited)) return {};
  return {WriterPace::Duration(ran), WriterPace::Duration(waited)};
}

}  // namespace capstan::server
