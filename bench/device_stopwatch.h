// Stopwatch: times work enqueued on a stream. Arrays: device memory for that work.
//
// Kind:   owned by one thread, on a CudaContext that outlives them.
// Fails:  as their context.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "worker/device/cuda_handles.h"

namespace capstan::bench {

class Stopwatch {
 public:
  // If `is_quick`, one call is timed. Otherwise several samples are timed; a sample has so many calls that it takes
  // about 5 ms, but at most 200 calls.
  Stopwatch(kernels::CudaContext& context, bool is_quick)
      : context_(context), is_quick_(is_quick), begin_(MakeTimer()), end_(MakeTimer()) {}

  // Returns the microseconds of one call: the median of the samples, after a warm-up. `enqueue` enqueues the call on
  // the context's stream. If enqueuing takes the host longer than the call takes the device, the result is the host's
  // time.
  double Microseconds(const std::function<void()>& enqueue) {
    for (int i = 0; i < (is_quick_ ? 1 : 3); ++i) enqueue();
    const double once = Sample(enqueue, 1);
    const int calls =
        is_quick_ ? 1 : static_cast<int>(std::clamp(kSampleMicroseconds / std::max(once, 1.0), 1.0, 200.0));
    std::vector<double> samples;
    for (int i = 0; i < (is_quick_ ? 1 : kSamples); ++i) samples.push_back(Sample(enqueue, calls));
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

 private:
  static constexpr double kSampleMicroseconds = 5000;
  static constexpr int kSamples = 7;

  train::CudaEvent MakeTimer() {
    cudaEvent_t event = nullptr;
    context_.Note(cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
    return train::CudaEvent(event);
  }

  double Sample(const std::function<void()>& enqueue, int calls) {
    if (!context_.status().ok()) return 0;
    context_.Note(cudaEventRecord(begin_.get(), context_.stream()), "recording an event");
    for (int i = 0; i < calls; ++i) enqueue();
    context_.Note(cudaEventRecord(end_.get(), context_.stream()), "recording an event");
    context_.Note(cudaEventSynchronize(end_.get()), "waiting for an event");
    float milliseconds = 0;
    context_.Note(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "reading a time");
    return 1000.0 * static_cast<double>(milliseconds) / calls;
  }

  kernels::CudaContext& context_;
  const bool is_quick_;
  const train::CudaEvent begin_, end_;
};

// Device memory, freed with this object.
class Arrays {
 public:
  explicit Arrays(kernels::CudaContext& context) : context_(context) {}

  // Makes random numbers in [-scale, scale): a GPU may multiply zeros faster than other numbers.
  template <class T>
  T* Numbers(std::int64_t count, float scale = 1.0F) {
    return Repeat<T>(count, [scale](RandomStream& random) {
      return Narrow<T>(static_cast<Wide<T>>(scale * static_cast<float>(2 * random.Unit() - 1)));
    });
  }
  template <class T>
  T* Zeros(std::int64_t count) {
    return Repeat<T>(count, [](RandomStream&) { return Narrow<T>(Wide<T>(0)); });
  }
  template <class T>
  T* Ones(std::int64_t count) {
    return Repeat<T>(count, [](RandomStream&) { return Narrow<T>(Wide<T>(1)); });
  }
  // Makes random tokens below `bound`. Small ones are more frequent, as in a text.
  std::int32_t* Tokens(std::int64_t count, std::int64_t bound) {
    return Repeat<std::int32_t>(count, [bound](RandomStream& random) {
      const double u = random.Unit();
      return static_cast<std::int32_t>(u * u * u * static_cast<double>(bound));
    });
  }
  template <class T>
  T* Unset(std::int64_t count) {
    memory_.push_back(context_.Allocate(static_cast<std::size_t>(count) * sizeof(T)));
    return static_cast<T*>(memory_.back().get());
  }

 private:
  static constexpr std::int64_t kDrawn = 1 << 20;  // how many numbers are drawn; the rest of an array repeats them

  template <class T, class Draw>
  T* Repeat(std::int64_t count, const Draw& draw) {
    RandomStream random(memory_.size() + 1);
    std::vector<T> drawn(static_cast<std::size_t>(std::min(count, kDrawn)));
    for (T& value : drawn) value = draw(random);
    T* const array = Unset<T>(count);
    Copy(array, drawn.data(), static_cast<std::int64_t>(drawn.size()), cudaMemcpyHostToDevice);
    for (auto done = static_cast<std::int64_t>(drawn.size()); done < count; done *= 2) {
      Copy(array + done, array, std::min(done, count - done), cudaMemcpyDeviceToDevice);
    }
    context_.Note(cudaStreamSynchronize(context_.stream()), "waiting");
    return array;
  }

  template <class T>
  void Copy(T* to, const T* from, std::int64_t count, cudaMemcpyKind kind) {
    if (!context_.status().ok()) return;
    context_.Note(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), kind, context_.stream()),
                  "copying");
  }

  kernels::CudaContext& context_;
  std::vector<kernels::CudaContext::Memory> memory_;
};

}  // namespace capstan::bench
