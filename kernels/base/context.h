// CpuContext, CudaContext: where a kernel runs: a fixed number of threads, or a stream of a device; and a workspace.
//
// Kind:   owned by the one thread that calls kernels with it.
// Limits: kThreadsMax threads. ParallelFor and Workspace do not nest.
// Fails:  CudaContext keeps the first failure of CUDA; from then on it allocates and starts nothing.
// Why:    threads only choose who computes a task, never how work is cut into tasks or in which order sums are
//         added; so the number of threads cannot move a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/status.h"

struct CUstream_st;  // *: cudaStream_t

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

  // What lies in this context's memory.
  template <class T>
  T Read(const T* value) {
    return *value;
  }

  // At least `count` elements, as of Allocate; valid until the next call of Workspace. It grows to the largest request
  // and stays.
  template <class Real>
  Real* Workspace(std::size_t count) {
    return static_cast<Real*>(WorkspaceBytes(count * sizeof(Real)));
  }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  using Call = void (*)(const void* task, std::int64_t index, int lane);
  void Run(std::int64_t count, Call call, const void* task);
  void* WorkspaceBytes(std::size_t bytes);

  class Pool;
  std::unique_ptr<Pool> pool_;  // null with one thread
  Memory workspace_;
  std::size_t workspace_bytes_ = 0;
};

class Convolutions;  // kernels/cuda/convolutions.h
class Products;      // kernels/cuda/products.h

// Kernels on a CudaContext are enqueued on its stream and return at once; every pointer they take is the device's. What
// fails there is seen by a later call, or when its stream is waited for.
class CudaContext {
 public:
  explicit CudaContext(CUstream_st* stream) : stream_(stream) {}

  CUstream_st* stream() const { return stream_; }

  // Who computes matrix products; null: nobody, and Matmul fails.
  void UseProducts(std::shared_ptr<Products> products) { products_ = std::move(products); }
  Products* products() const { return products_.get(); }
  // Who computes convolutions; null: they are products.
  void UseConvolutions(std::shared_ptr<Convolutions> convolutions) { convolutions_ = std::move(convolutions); }
  Convolutions* convolutions() const { return convolutions_.get(); }

  const Status& status() const { return status_; }
  // The first failure, where it is not one of CUDA's runtime.
  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // What a call of CUDA came to, `call` being what it was for; false once one has failed.
  bool Note(int cuda_status, const char* call);

  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;
  // Of the device, aligned to 256 bytes, with any content. Null after a failure.
  Memory Allocate(std::size_t bytes);

  // What lies in the device's memory once all that is enqueued is done, which this waits for. T() after a failure.
  template <class T>
  T Read(const T* value) {
    T copy{};
    ReadBytes(value, sizeof(T), &copy);
    return copy;
  }

  // As CpuContext's: kernels that are enqueued use it one after the other.
  template <class Real>
  Real* Workspace(std::size_t count) {
    return static_cast<Real*>(WorkspaceBytes(count * sizeof(Real)));
  }

 private:
  void ReadBytes(const void* from, std::size_t bytes, void* to);
  void* WorkspaceBytes(std::size_t bytes);

  CUstream_st* const stream_;
  Status status_;
  std::shared_ptr<Products> products_;
  std::shared_ptr<Convolutions> convolutions_;
  Memory workspace_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace capstan::kernels
