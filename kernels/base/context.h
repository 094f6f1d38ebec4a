// CpuContext, CudaContext: where a kernel runs (on a fixed number of threads, or on a stream of a device),
// and a workspace.
//
// Kind:   owned by the one thread that calls kernels with it.
// Limits: kThreadsMax threads. ParallelFor and Workspace do not nest.
// Fails:  CudaContext keeps the first failure of CUDA; from then on it allocates and starts nothing.
// Why:    the number of threads cannot change a bit of a kernel's results: it decides which thread computes a task, and
//         never the order in which numbers are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/status.h"

struct CUstream_st;  // a pointer to it is a cudaStream_t

namespace capstan::kernels {

inline constexpr int kThreadsMax = 256;

class CpuContext {
 public:
  // `threads` (1 to kThreadsMax) includes the calling thread; the other threads sleep between calls. The other threads
  // set a FloatControl for themselves; the caller must have its own.
  explicit CpuContext(int threads);
  ~CpuContext();
  CpuContext(const CpuContext&) = delete;
  CpuContext& operator=(const CpuContext&) = delete;

  int threads() const;

  // Calls task(index, lane) once for every index in [0, count), on all threads; lane < threads() identifies the thread.
  // Returns when all calls have returned.
  template <class Task>
  void ParallelFor(std::int64_t count, const Task& task) {
    Run(
        count, [](const void* t, std::int64_t index, int lane) { (*static_cast<const Task*>(t))(index, lane); }, &task);
  }

  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;
  // Allocates memory that kernels of this context can use. It is aligned to 64 bytes and not initialised.
  Memory Allocate(std::size_t bytes);

  // Returns the value at an address in this context's memory.
  template <class T>
  T Read(const T* value) {
    return *value;
  }

  // Returns memory for at least `count` elements, aligned as Allocate's and valid until the next call of Workspace. The
  // workspace grows to the largest request and is not shrunk.
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

// Kernels on a CudaContext are enqueued on its stream and return at once; all their pointers are addresses of the
// device. A failure may be noticed only by a later call, or when the stream is waited for.
class CudaContext {
 public:
  explicit CudaContext(CUstream_st* stream) : stream_(stream) {}

  CUstream_st* stream() const { return stream_; }

  // Sets the library for matrix products; null: none, and Matmul fails.
  void UseProducts(std::shared_ptr<Products> products) { products_ = std::move(products); }
  Products* products() const { return products_.get(); }
  // Sets the library for convolutions; null: they are computed as matrix products.
  void UseConvolutions(std::shared_ptr<Convolutions> convolutions) { convolutions_ = std::move(convolutions); }
  Convolutions* convolutions() const { return convolutions_.get(); }

  const Status& status() const { return status_; }
  // Records a failure of something other than CUDA's runtime. Only the first failure is kept.
  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // Records the result of the CUDA call named `call`. Returns false if this call or anything before has failed.
  bool Note(int cuda_status, const char* call);

  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;
  // Allocates device memory. It is aligned to 256 bytes and not initialised. Null after a failure.
  Memory Allocate(std::size_t bytes);

  // Waits until everything that was enqueued on the stream has finished, and returns the value at an address of the
  // device. Returns T() after a failure.
  template <class T>
  T Read(const T* value) {
    T copy{};
    ReadBytes(value, sizeof(T), &copy);
    return copy;
  }

  // As CpuContext::Workspace. All kernels of the context share this memory, because they run one after the other. Null
  // after a failure.
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
