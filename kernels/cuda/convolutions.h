// Convolutions: who computes convolutions on a device other than as products of laid-out windows.
//
// Kind:   owned by its context, and used by that context's thread.
// Shapes: as in conv2d.h.
// Limits: kWorkspaceBytes of the device.
// Why:    cuDNN reads windows from the image. Where it is not there, or has no way for a shape that gives the same bits
//         each time, windows are laid out as ever.
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

// Forward: y of x and the filter. Input: dx of dy and the filter. Filter: its gradient of x and dy.
enum class ConvolutionPass : std::uint8_t { kForward, kInput, kFilter };

struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  Encoding numbers = Encoding::kFp32;  // all three arrays'
  Conv2dShape shape;
  auto operator<=>(const Convolution&) const = default;
};

class Convolutions {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

  virtual ~Convolutions() = default;

  struct Pointers {
    const void* image = nullptr;   // x; for kInput dy
    const void* filter = nullptr;  // for kFilter dy
    void* out = nullptr;
  };
  // Enqueues out = result + beta * out, sums in fp32 and rounded once. False: there is no way, and nothing was done.
  virtual bool Run(CudaContext& context, const Convolution& convolution, const Pointers& pointers, float beta) = 0;

  // The shapes since it was last asked for which there is no way, and why; for people.
  virtual std::string TakeRefusals() = 0;
};

// Gives a context cuDNN. Returns its name ("cudnn 91900"), for the numeric class. Fails: kUnsupported, and where it was
// looked for.
Result<std::string> LoadConvolutions(const LibrarySearch& search, CudaContext* context);

}  // namespace capstan::kernels
