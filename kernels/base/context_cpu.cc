#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "common/base/float_control.h"
#include "common/base/status.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

// Helper threads that claim tasks from a shared counter.
//
// A job is one call of Run(). `open_` holds the job's number in its high half and the number of unclaimed tasks in its
// low half, so that a late helper cannot claim a task of another job than the one it saw. A claimed task keeps Run()
// from returning, so `call_` and `task_` are valid for the thread that claimed it.
class CpuContext::Pool {
 public:
  explicit Pool(int helpers) {
    for (int i = 0; i < helpers; ++i) {
      threads_.all.emplace_back([this, lane = i + 1] { Help(lane); });
      const std::string name = "kernel-" + std::to_string(i + 1);
      pthread_setname_np(threads_.all.back().native_handle(), name.c_str());
    }
  }

  int helpers() const { return static_cast<int>(threads_.all.size()); }

  void Run(std::int64_t count, Call call, const void* task) {
    CAPSTAN_CHECK(static_cast<std::uint64_t>(count) < kOneJob);
    call_ = call;
    task_ = task;
    count_ = static_cast<std::uint64_t>(count);
    finished_.store(0, std::memory_order_relaxed);
    const std::uint64_t job = (open_.load(std::memory_order_relaxed) / kOneJob + 1) * kOneJob;
    open_.store(job + count_, std::memory_order_release);
    open_.notify_all();
    ClaimAll(0);
    for (int spin = 0; spin < kSpins; ++spin) {
      if (finished_.load(std::memory_order_acquire) == count_) return;
      __builtin_ia32_pause();
    }
    for (std::uint64_t done = finished_.load(std::memory_order_acquire); done != count_;
         done = finished_.load(std::memory_order_acquire)) {
      finished_.wait(done, std::memory_order_acquire);
    }
  }

 private:
  static constexpr std::uint64_t kOneJob = std::uint64_t{1} << 32;
  static constexpr int kSpins = 4000;  // so that a short pause between jobs needs no wake-up

  // Joins the helper threads. If the system starts only some of them, the pool's constructor throws; then the pool's
  // own destructor is not called, but those of its members are.
  struct Threads {
    ~Threads() {
      pool.stop_.store(true, std::memory_order_relaxed);
      pool.open_.fetch_add(kOneJob, std::memory_order_release);
      pool.open_.notify_all();
      for (std::thread& thread : all) thread.join();
    }

    Pool& pool;
    std::vector<std::thread> all;
  };

  void Help(int lane) {
    const FloatControl float_control;
    std::uint64_t seen = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      for (int spin = 0; spin < kSpins && open_.load(std::memory_order_acquire) == seen; ++spin) {
        __builtin_ia32_pause();
      }
      open_.wait(seen, std::memory_order_acquire);
      seen = ClaimAll(lane);
    }
  }

  // Runs tasks until none is left; returns the value of `open_` that showed that none is left.
  std::uint64_t ClaimAll(int lane) {
    std::uint64_t open = open_.load(std::memory_order_acquire);
    while (open % kOneJob != 0) {
      if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      const std::uint64_t count = count_;  // Run() may start the next job right after the last task is counted
      call_(task_, static_cast<std::int64_t>(count - open % kOneJob), lane);
      if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) finished_.notify_one();
      open = open_.load(std::memory_order_acquire);
    }
    return open;
  }

  alignas(64) std::atomic<std::uint64_t> open_{0};
  alignas(64) std::atomic<std::uint64_t> finished_{0};
  std::atomic<bool> stop_{false};
  Call call_ = nullptr;
  const void* task_ = nullptr;
  std::uint64_t count_ = 0;
  Threads threads_{*this, {}};  // last, because the threads use the members above
};

CpuContext::CpuContext(int threads) {
  CAPSTAN_CHECK(threads >= 1 && threads <= kThreadsMax);
  if (threads > 1) pool_ = std::make_unique<Pool>(threads - 1);
}

CpuContext::~CpuContext() = default;

int CpuContext::threads() const { return pool_ == nullptr ? 1 : pool_->helpers() + 1; }

void CpuContext::Run(std::int64_t count, Call call, const void* task) {
  if (pool_ != nullptr && count > 1) return pool_->Run(count, call, task);
  for (std::int64_t index = 0; index < count; ++index) call(task, index, 0);
}

CpuContext::Memory CpuContext::Allocate(std::size_t bytes) {
  return Memory(::operator new (bytes, std::align_val_t{64}));
}

void* CpuContext::WorkspaceBytes(std::size_t bytes) {
  if (bytes > workspace_bytes_) {
    workspace_.reset();
    workspace_ = Allocate(bytes);
    workspace_bytes_ = bytes;
  }
  return workspace_.get();
}

void CpuContext::Free::operator()(void* memory) const { ::operator delete (memory, std::align_val_t{64}); }

}  // namespace capstan::kernels
