// LLVMFuzzerTestOneInput: passes libFuzzer's inputs to the one target of this program.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  capstan::fuzz::Targets().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
