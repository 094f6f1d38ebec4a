// Convolutions: a library that computes convolutions on a device without a matrix of copied windows.
//
// Kind:   owned by its context, and used by that context's thread.
// Shapes: as in conv2d.h.
// Limits: kWorkspaceBytes of device memory.
// Why:    cuDNN reads windows from the image. Without cuDNN, or for a shape that cuDNN cannot compute with the same
//         bits each time, conv2d_cuda.cu copies the windows into a matrix (im2col).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "kernels/base/context.h"
#include "kernels/base/image_windows.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// kForward computes y from x and the filter, kInput dx from dy and the filter, kFilter the filter's gradient from x and
// dy.
enum class ConvolutionPass : std::uint8_t { kForward, kInput, kFilter };

struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  Encoding numbers = Encoding::kFp32;  // type of all three arrays
  Conv2dShape shape;
  auto operator<=>(const Convolution&) const = default;
};

class Convolutions {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

  virtual ~Convolutions() = default;

  struct Pointers {
    const void* image = nullptr;   // x; dy for kInput
    const void* filter = nullptr;  // the filter; dy for kFilter
    void* out = nullptr;
  };
  // Enqueues out = result + beta * out; sums are fp32 and rounded once. Returns false, with nothing enqueued, if the
  // convolution is unsupported.
  virtual bool Run(CudaContext& context, const Convolution& convolution, const Pointers& pointers, float beta) = 0;

  // Returns the convolutions found unsupported since the last call, with reasons, for a log line.
  virtual std::string TakeRefusals() = 0;
};

// Gives a context cuDNN. Returns cuDNN's name and version ("cudnn 91900"). The bits of gradients depend on them, so
// they are part of the worker's numeric class, which must be the same for all workers of a job. Fails: kUnsupported; if
// cuDNN was not found, the message names the places searched.
Result<std::string> LoadConvolutions(const LibrarySearch& search, CudaContext* context);

}  // namespace capstan::kernels
