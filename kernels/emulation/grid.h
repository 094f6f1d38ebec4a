// RunGrid: a CUDA grid on the calling thread: blocks one after the other, a block's threads as fibers.
//
// Kind:   functions for the stand-in headers in cuda/; only code that runs in a grid calls any but RunGrid.
// Limits: CUDA's on grids and blocks. Static __shared__ arrays only: they are thread_local here, so a grid never moves
//         to another thread of the system.
// Fails:  a block whose threads wait for each other and none can go on, a shuffle with a lane outside the mask: the
//         process ends and says which.
// Why:    kernels run on machines without a GPU, under sanitizers, from the same source. Between two barriers threads
//         may run in any order, and a warp far ahead of another: one block begins with its last thread, the next with
//         its first, and later the order is random, after CAPSTAN_EMULATED_ORDER=SEED. So a missing barrier shows in
//         one of them; to ThreadSanitizer it is a data race, whatever the order.
#pragma once

#include <cstddef>
#include <functional>

namespace capstan::emulation {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Size3(unsigned in_x = 1, unsigned in_y = 1, unsigned in_z = 1) : x(in_x), y(in_y), z(in_z) {}
};

void RunGrid(Size3 blocks, Size3 threads, const std::function<void()>& body);

// Of the thread that is running.
struct Place {
  Size3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
};
const Place& ThisThread();

void SyncBlock();
// Waits for the threads of `mask` in this thread's warp.
void SyncWarp(unsigned mask);
// Hands `bytes` (at most 8) at `value` over to the threads of `mask` in the warp, and takes those of lane `from`.
void Exchange(unsigned mask, int from, void* value, std::size_t bytes);
// One bit for each thread of `mask`.
unsigned Ballot(unsigned mask, bool bit);
int Lane();

}  // namespace capstan::emulation
