#include "cli/run/free_heap.h"

#include <malloc.h>

#include <algorithm>

namespace capstan::cli {

FreeHeap::Heap FreeHeap::OfThisProcess() {
  return {[] { return std::uint64_t{mallinfo2().fordblks}; }, [] { (void)malloc_trim(kKeptBytes); }};
}

void FreeHeap::Look() {
  least_ = std::min(least_, heap_.free_bytes());
  if (++looks_ < kLooks) return;
  if (least_ > kKeptBytes) heap_.give_back();
  looks_ = 0;
  least_ = UINT64_MAX;
}

}  // namespace capstan::cli
