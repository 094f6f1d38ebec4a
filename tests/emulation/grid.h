// RunGrid: runs a CUDA grid on the calling thread: blocks one after the other, the threads of a block as fibers.
//
// Kind:   functions for the stand-in headers in cuda/; all but RunGrid are called only by code inside a grid.
// Limits: a block has 1 to 1024 threads. Only static __shared__ arrays: they are thread_local here, so a grid never
//         moves to another system thread.
// Fails:  ends the process with a message if a block is too large, if the threads of a block wait for each other and
//         none can go on, or if a shuffle names a lane outside the mask.
// Why:    kernels run on machines without a GPU, under sanitizers, from the same source. Between two barriers threads
//         may run in any order, and one warp may be far ahead of another. One block begins with its last thread, the
//         next with its first; later the order is random, seeded by CAPSTAN_EMULATED_ORDER=SEED. So a missing barrier
//         is likely to give a wrong result in some order; ThreadSanitizer reports it as a data race in any order.
#pragma once

#include <cstddef>
#include <functional>

namespace capstan::emulation {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Size3(unsigned in_x = 1, unsigned in_y = 1, unsigned in_z = 1) : x(in_x), y(in_y), z(in_z) {}
};

void RunGrid(Size3 blocks, Size3 threads, const std::function<void()>& body);

// The indices of the running thread in its block and grid, and their sizes.
struct Place {
  Size3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
};
const Place& ThisThread();

void SyncBlock();
// Waits for the threads of `mask` in this thread's warp.
void SyncWarp(unsigned mask);
// Gives `bytes` bytes (at most 8) at `value` to the threads of `mask` in the warp, and replaces them by those that lane
// `from` gives.
void Exchange(unsigned mask, int from, void* value, std::size_t bytes);
// Returns one bit for each lane: the `bit` that it gives, or 0 for a lane outside `mask`.
unsigned Ballot(unsigned mask, bool bit);
int Lane();

}  // namespace capstan::emulation
