#include "kernels/cuda/cudnn.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <vector>

#include "common/data/number16.h"

// NOLINTBEGIN: the names are cuDNN's.
struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;
};
struct cudnnFilterStruct : cudnnTensorStruct {};
struct cudnnConvolutionStruct {
  int padding = 0, stride = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
// NOLINTEND

namespace {

using capstan::Bf16;
using capstan::Half;
using capstan::Narrow;
using capstan::Widen;

constexpr std::size_t kWorkspaceBytes = 4096;
constexpr int kFiltersWithoutAlgorithm = 5, kFiltersNotSupported = 7;

// A convolution's parameters as they were when it was enqueued; x_is, w_is and y_is describe x, w and y.
struct Call {
  cudnnTensorStruct x_is, w_is, y_is;
  cudnnConvolutionStruct how;
  const void *a, *b;
  void *out, *workspace;
  float alpha, beta;
};

// Whether y has the shape that x and w give, all three have one type, and the arithmetic is what capstan requires.
bool Fits(const cudnnTensorStruct& x, const cudnnTensorStruct& w, const cudnnTensorStruct& y,
          const cudnnConvolutionStruct& how) {
  const auto out = [&](int size, int window) { return (size + 2 * how.padding - window) / how.stride + 1; };
  const cudnnMathType_t math = x.type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  return x.type == w.type && x.type == y.type && how.math == math && x.n == y.n && x.c == w.c && y.c == w.n &&
         y.h == out(x.h, w.h) && y.w == out(x.w, w.w);
}

// Calls visit(index in x, index in w, index in y) for each product that a convolution adds.
template <class Visit>
void ForProducts(const Call& call, const Visit& visit) {
  const auto& [x, w, y, how] = std::tie(call.x_is, call.w_is, call.y_is, call.how);
  std::size_t at_y = 0;
  for (int n = 0; n < y.n; ++n) {
    for (int p = 0; p < y.h; ++p) {
      for (int q = 0; q < y.w; ++q) {
        for (int k = 0; k < y.c; ++k, ++at_y) {
          for (int r = 0; r < w.h; ++r) {
            for (int s = 0; s < w.w; ++s) {
              const int row = p * how.stride - how.padding + r, column = q * how.stride - how.padding + s;
              if (row < 0 || row >= x.h || column < 0 || column >= x.w) continue;
              const auto at_x = static_cast<std::size_t>((n * x.h + row) * x.w + column) * static_cast<unsigned>(x.c);
              const auto at_w = static_cast<std::size_t>((k * w.h + r) * w.w + s) * static_cast<unsigned>(x.c);
              for (std::size_t c = 0; c < static_cast<std::size_t>(x.c); ++c) visit(at_x + c, at_w + c, at_y);
            }
          }
        }
      }
    }
  }
}

std::size_t CountOf(const cudnnTensorStruct& t) {
  return static_cast<std::size_t>(t.n) * static_cast<std::size_t>(t.c) * static_cast<std::size_t>(t.h * t.w);
}

template <class T>
void Finish(const Call& call, const std::vector<float>& sums) {
  T* const out = static_cast<T*>(call.out);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float old = call.beta == 0 ? 0.0F : call.beta * static_cast<float>(Widen(out[i]));
    out[i] = Narrow<T>(call.alpha * sums[i] + old);
  }
}

enum class Pass { kForward, kData, kFilter };

template <class T>
void Compute(Pass pass, const Call& call) {
  std::memset(call.workspace, 0xFF, kWorkspaceBytes);
  const T* const a = static_cast<const T*>(call.a);
  const T* const b = static_cast<const T*>(call.b);
  const auto product = [&](std::size_t i, std::size_t j) {
    return static_cast<float>(Widen(a[i])) * static_cast<float>(Widen(b[j]));
  };
  std::vector<float> sums(CountOf(pass == Pass::kForward ? call.y_is : pass == Pass::kData ? call.x_is : call.w_is));
  ForProducts(call, [&](std::size_t x, std::size_t w, std::size_t y) {
    switch (pass) {
      case Pass::kForward: sums[y] += product(x, w); break;
      case Pass::kData: sums[x] += product(w, y); break;
      case Pass::kFilter: sums[w] += product(x, y); break;
    }
  });
  Finish<T>(call, sums);
}

cudnnStatus_t Enqueue(cudnnHandle_t handle, Pass pass, Call call, const void* alpha, std::size_t bytes,
                      const void* beta) {
  for (const void* pointer : {call.a, call.b, static_cast<const void*>(call.out)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return CUDNN_STATUS_BAD_PARAM;
  }
  if (!Fits(call.x_is, call.w_is, call.y_is, call.how) || call.workspace == nullptr || bytes != kWorkspaceBytes) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (call.w_is.n == kFiltersNotSupported) return CUDNN_STATUS_NOT_SUPPORTED;
  std::memcpy(&call.alpha, alpha, sizeof(float));
  std::memcpy(&call.beta, beta, sizeof(float));
  handle->stream->Enqueue([pass, call] {
    if (call.x_is.type == CUDNN_DATA_BFLOAT16) return Compute<Bf16>(pass, call);
    if (call.x_is.type == CUDNN_DATA_HALF) return Compute<Half>(pass, call);
    Compute<float>(pass, call);
  });
  return CUDNN_STATUS_SUCCESS;
}

// Offers in turn: an algorithm that may give other bits each time; one that is no product; `large`, which in the
// forward pass needs too much memory; one that does not work; and the one that capstan should take.
template <class Algorithm>
cudnnStatus_t Offer(bool fits, int filters, Algorithm other, Algorithm large, Algorithm good, int asked, int* found,
                    cudnnPerf_t<Algorithm>* results) {
  *found = 0;
  if (!fits || asked < 5) return CUDNN_STATUS_BAD_PARAM;
  const auto offer = [&](Algorithm algorithm, cudnnStatus_t status, cudnnDeterminism_t determinism) {
    results[(*found)++] = {algorithm, status, 1, kWorkspaceBytes, determinism, CUDNN_DEFAULT_MATH};
  };
  offer(good, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC);
  offer(other, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC);
  offer(large, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC);
  offer(good, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC);
  if (filters != kFiltersWithoutAlgorithm) offer(good, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

// NOLINTBEGIN: the names are cuDNN's.
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_NOT_SUPPORTED";
}
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  *tensor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (format != CUDNN_TENSOR_NHWC || std::min({n, c, h, w}) < 1) return CUDNN_STATUS_BAD_PARAM;
  *tensor = {type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  *filter = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return cudnnSetTensor4dDescriptor(filter, format, type, k, c, h, w);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  *convolution = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int u,
                                              int v, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const bool plain = mode == CUDNN_CROSS_CORRELATION && dilation_h == 1 && dilation_w == 1;
  if (!plain || compute != CUDNN_DATA_FLOAT || pad_h != pad_w || u != v || pad_h < 0 || u < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  *convolution = {.padding = pad_h, .stride = u};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  delete convolution;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int asked, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return Offer(Fits(*x, *w, *y, *convolution), w->n, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, asked, found,
               results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
                                                      cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  const bool large = algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  *bytes = large ? std::size_t{1} << 40 : kWorkspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_is,
                                      const void* x, cudnnFilterDescriptor_t w_is, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_is, void* y) {
  if (algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) return CUDNN_STATUS_NOT_SUPPORTED;
  return Enqueue(handle, Pass::kForward, {*x_is, *w_is, *y_is, *convolution, x, w, y, workspace, 0, 0}, alpha, bytes,
                 beta);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int asked, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return Offer(Fits(*dx, *w, *dy, *convolution), w->n, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
               CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, asked, found, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t,
                                                           std::size_t* bytes) {
  *bytes = kWorkspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_is,
                                           const void* w, cudnnTensorDescriptor_t dy_is, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, std::size_t bytes,
                                           const void* beta, cudnnTensorDescriptor_t dx_is, void* dx) {
  if (algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) return CUDNN_STATUS_NOT_SUPPORTED;
  return Enqueue(handle, Pass::kData, {*dx_is, *w_is, *dy_is, *convolution, w, dy, dx, workspace, 0, 0}, alpha, bytes,
                 beta);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int asked, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return Offer(Fits(*x, *dw, *dy, *convolution), dw->n, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, asked, found,
               results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t,
                                                             std::size_t* bytes) {
  *bytes = kWorkspaceBytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_is,
                                             const void* x, cudnnTensorDescriptor_t dy_is, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw_is,
                                             void* dw) {
  if (algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) return CUDNN_STATUS_NOT_SUPPORTED;
  return Enqueue(handle, Pass::kFilter, {*x_is, *dw_is, *dy_is, *convolution, x, dy, dw, workspace, 0, 0}, alpha, bytes,
                 beta);
}
// NOLINTEND

namespace capstan::kernels {

Result<Cudnn> OpenCudnn(const LibrarySearch&) {
  const char* const there = std::getenv("CAPSTAN_EMULATED_CUDNN");
  if (there == nullptr || std::strcmp(there, "1") != 0) {
    return Unsupported("the emulated device has no cuDNN unless CAPSTAN_EMULATED_CUDNN=1");
  }
  Cudnn dnn;
  dnn.Create = cudnnCreate;
  dnn.Destroy = cudnnDestroy;
  dnn.SetStream = cudnnSetStream;
  dnn.GetErrorString = cudnnGetErrorString;
  dnn.CreateTensorDescriptor = cudnnCreateTensorDescriptor;
  dnn.SetTensor4dDescriptor = cudnnSetTensor4dDescriptor;
  dnn.DestroyTensorDescriptor = cudnnDestroyTensorDescriptor;
  dnn.CreateFilterDescriptor = cudnnCreateFilterDescriptor;
  dnn.SetFilter4dDescriptor = cudnnSetFilter4dDescriptor;
  dnn.DestroyFilterDescriptor = cudnnDestroyFilterDescriptor;
  dnn.CreateConvolutionDescriptor = cudnnCreateConvolutionDescriptor;
  dnn.SetConvolution2dDescriptor = cudnnSetConvolution2dDescriptor;
  dnn.SetConvolutionMathType = cudnnSetConvolutionMathType;
  dnn.DestroyConvolutionDescriptor = cudnnDestroyConvolutionDescriptor;
  dnn.GetConvolutionForwardAlgorithm_v7 = cudnnGetConvolutionForwardAlgorithm_v7;
  dnn.GetConvolutionForwardWorkspaceSize = cudnnGetConvolutionForwardWorkspaceSize;
  dnn.ConvolutionForward = cudnnConvolutionForward;
  dnn.GetConvolutionBackwardDataAlgorithm_v7 = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  dnn.GetConvolutionBackwardDataWorkspaceSize = cudnnGetConvolutionBackwardDataWorkspaceSize;
  dnn.ConvolutionBackwardData = cudnnConvolutionBackwardData;
  dnn.GetConvolutionBackwardFilterAlgorithm_v7 = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  dnn.GetConvolutionBackwardFilterWorkspaceSize = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  dnn.ConvolutionBackwardFilter = cudnnConvolutionBackwardFilter;
  dnn.name = "cudnn emulated";
  return dnn;
}

}  // namespace capstan::kernels
