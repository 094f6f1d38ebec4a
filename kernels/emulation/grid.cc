#include "kernels/emulation/grid.h"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace capstan::emulation {
namespace {

namespace context = boost::context;

constexpr unsigned kWarp = 32, kThreadsMax = 1024;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;

enum class State : std::uint8_t { kReady, kAtBlock, kAtWarp, kDone };

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

// Stacks of one size, used again by the next block.
class StackPool {
 public:
  context::stack_context allocate() {
    if (free_.empty()) return context::fixedsize_stack(kStackBytes).allocate();
    context::stack_context stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void deallocate(context::stack_context& stack) { free_.push_back(stack); }
  ~StackPool() {
    for (context::stack_context& stack : free_) context::fixedsize_stack(kStackBytes).deallocate(stack);
  }

 private:
  std::vector<context::stack_context> free_;
};

// What boost copies, while the pool stays.
struct PooledStack {
  StackPool* pool;
  context::stack_context allocate() { return pool->allocate(); }
  void deallocate(context::stack_context& stack) { pool->deallocate(stack); }
};

struct Thread {
  Place place;
  State state = State::kReady;
  unsigned mask = 0;  // kAtWarp: whom it waits for
  context::fiber fiber;
};

class Block {
 public:
  Block(Size3 blocks, Size3 threads, Size3 index, bool descends, StackPool* stacks, const std::function<void()>& body)
      : descends_(descends),
        threads_(std::size_t{threads.x} * threads.y * threads.z),
        exchanged_((threads_.size() + kWarp - 1) / kWarp * kWarp) {
    std::size_t next = 0;
    for (unsigned z = 0; z < threads.z; ++z) {
      for (unsigned y = 0; y < threads.y; ++y) {
        for (unsigned x = 0; x < threads.x; ++x, ++next) {
          threads_[next].place = {{x, y, z}, index, threads, blocks};
          threads_[next].fiber =
              context::fiber(std::allocator_arg, PooledStack{stacks}, [this, &body](context::fiber&& caller) {
                caller_ = std::move(caller);
                body();
                threads_[running_].state = State::kDone;
                return std::move(caller_);
              });
        }
      }
    }
  }

  void Run();

  Thread& running() { return threads_[running_]; }
  std::size_t running_index() const { return running_; }
  void Wait(State state, unsigned mask) {
    running().state = state;
    running().mask = mask;
    caller_ = std::move(caller_).resume();
  }
  std::array<std::byte, 8>& ExchangedBy(unsigned lane) { return exchanged_[running_ / kWarp * kWarp + lane]; }

 private:
  bool Release();
  bool ReleaseBlock();
  std::string Waiting() const;

  const bool descends_;  // begins with its last thread
  std::vector<Thread> threads_;
  std::vector<std::array<std::byte, 8>> exchanged_;
  std::size_t running_ = 0;
  context::fiber caller_;
};

thread_local Block* current = nullptr;

void Block::Run() {
  for (std::size_t turn = 0;; ++turn) {
    bool any = false;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      running_ = (turn % 2 == 0) == descends_ ? threads_.size() - 1 - i : i;
      if (running().state != State::kReady) continue;
      any = true;
      context::fiber next = std::move(running().fiber).resume();
      running().fiber = std::move(next);
    }
    if (Release()) continue;
    if (any) continue;
    for (const Thread& thread : threads_) {
      if (thread.state != State::kDone) Die("a CUDA block stands still: " + Waiting());
    }
    return;
  }
}

// All that wait at the barrier of the block, once nobody is on the way to it.
bool Block::ReleaseBlock() {
  bool any = false;
  for (const Thread& thread : threads_) {
    if (thread.state == State::kReady || thread.state == State::kAtWarp) return false;
    any = any || thread.state == State::kAtBlock;
  }
  for (Thread& thread : threads_) {
    if (thread.state == State::kAtBlock) thread.state = State::kReady;
  }
  return any;
}

bool Block::Release() {
  bool any = ReleaseBlock();
  for (std::size_t begin = 0; begin < threads_.size(); begin += kWarp) {
    const std::size_t end = std::min(threads_.size(), begin + kWarp);
    for (std::size_t i = begin; i < end; ++i) {
      if (threads_[i].state != State::kAtWarp) continue;
      const unsigned mask = threads_[i].mask;
      bool all = true;
      for (std::size_t j = begin; j < end; ++j) {
        const Thread& other = threads_[j];
        if ((mask >> (j - begin) & 1) == 0 || other.state == State::kDone) continue;
        all = all && other.state == State::kAtWarp && other.mask == mask;
      }
      if (!all) continue;
      for (std::size_t j = begin; j < end; ++j) {
        if ((mask >> (j - begin) & 1) != 0 && threads_[j].state == State::kAtWarp) threads_[j].state = State::kReady;
      }
      any = true;
    }
  }
  return any;
}

std::string Block::Waiting() const {
  std::string text;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == State::kAtBlock) text += " thread " + std::to_string(i) + " at the block's barrier,";
    if (threads_[i].state == State::kAtWarp) text += " thread " + std::to_string(i) + " at its warp's,";
    if (text.size() > 400) return text + " ...";
  }
  return text;
}

}  // namespace

void RunGrid(Size3 blocks, Size3 threads, const std::function<void()>& body) {
  static thread_local bool descends = false;
  const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
  if (count == 0 || count > kThreadsMax) Die("a CUDA block of " + std::to_string(count) + " threads");
  StackPool stacks;
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        descends = !descends;
        Block block(blocks, threads, {x, y, z}, descends, &stacks, body);
        current = &block;
        block.Run();
        current = nullptr;
      }
    }
  }
}

const Place& ThisThread() { return current->running().place; }

int Lane() { return static_cast<int>(current->running_index() % kWarp); }

void SyncBlock() { current->Wait(State::kAtBlock, 0); }

void SyncWarp(unsigned mask) { current->Wait(State::kAtWarp, mask); }

void Exchange(unsigned mask, int from, void* value, std::size_t bytes) {
  if (from < 0 || from >= static_cast<int>(kWarp) || (mask >> from & 1) == 0) {
    Die("a CUDA shuffle takes from lane " + std::to_string(from) + ", which is not in its mask");
  }
  std::memcpy(current->ExchangedBy(static_cast<unsigned>(Lane())).data(), value, bytes);
  SyncWarp(mask);
  std::memcpy(value, current->ExchangedBy(static_cast<unsigned>(from)).data(), bytes);
  SyncWarp(mask);
}

unsigned Ballot(unsigned mask, bool bit) {
  unsigned own = bit ? 1 : 0, all = 0;
  std::memcpy(current->ExchangedBy(static_cast<unsigned>(Lane())).data(), &own, sizeof(own));
  SyncWarp(mask);
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    std::memcpy(&own, current->ExchangedBy(lane).data(), sizeof(own));
    all |= own << lane;
  }
  SyncWarp(mask);
  return all;
}

}  // namespace capstan::emulation
