// CpuContext: where a kernel runs: a fixed number of threads and a workspace.
//
// Kind:   owned by the one thread that calls kernels with it.
// Limits: kThreadsMax threads. ParallelFor and Workspace do not nest.
// Why:    threads only choose who computes a task, never how work is cut into tasks or in which order sums are
//         added; so the number of threads cannot move a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace capstan::kernels {

inline constexpr int kThreadsMax = 256;

class CpuContext {
 public:
  // The caller is one of the `threads` (1 to kThreadsMax); the others wait asleep between calls. Those have a
  // FloatControl; who calls kernels has its own.
  explicit CpuContext(int threads);
  ~CpuContext();
  CpuContext(const CpuContext&) = delete;
  CpuContext& operator=(const CpuContext&) = delete;

  int threads() const;

  // Calls task(index, lane) once for every index in [0, count), on all threads; lane < threads() names the thread.
  // Returns when all calls have.
  template <class Task>
  void ParallelFor(std::int64_t count, const Task& task) {
    Run(
        count, [](const void* t, std::int64_t index, int lane) { (*static_cast<const Task*>(t))(index, lane); }, &task);
  }

  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;
  // Memory that kernels of this context can work on, aligned to 64 bytes, with any content.
  Memory Allocate(std::size_t bytes);

  // At least `count` elements, as of Allocate; valid until the next call of Workspace. It grows to the largest request
  // and stays.
  template <class Real>
  Real* Workspace(std::size_t count) {
    return static_cast<Real*>(WorkspaceBytes(count * sizeof(Real)));
  }

 private:
  using Call = void (*)(const void* task, std::int64_t index, int lane);
  void Run(std::int64_t count, Call call, const void* task);
  void* WorkspaceBytes(std::size_t bytes);

  class Pool;
  std::unique_ptr<Pool> pool_;  // null with one thread
  Memory workspace_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace capstan::kernels
