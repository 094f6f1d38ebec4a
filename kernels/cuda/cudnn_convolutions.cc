#include <array>
#include <map>
#include <utility>

#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/cudnn.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kAlignment = 16;  // of all arrays, in bytes
constexpr int kAnswersMax = 16;

cudnnDataType_t TypeOf(Encoding numbers) {
  switch (numbers) {
    case Encoding::kFp32: return CUDNN_DATA_FLOAT;
    case Encoding::kBf16: return CUDNN_DATA_BFLOAT16;
    case Encoding::kFp16: return CUDNN_DATA_HALF;
  }
  return CUDNN_DATA_FLOAT;
}

// Returns how cuDNN is to multiply. fp32 numbers are multiplied in fp32: cuDNN's default would allow TF32.
cudnnMathType_t MathOf(Encoding numbers) { return numbers == Encoding::kFp32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH; }

bool IsProduct(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
}
bool IsProduct(cudnnConvolutionBwdDataAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1; }
bool IsProduct(cudnnConvolutionBwdFilterAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; }

std::string ToString(const Convolution& c) {
  const ImageWindows& w = c.shape.windows;
  const char* const pass = c.pass == ConvolutionPass::kForward ? ""
                           : c.pass == ConvolutionPass::kInput ? "dx of "
                                                               : "dw of ";
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return pass + number(w.samples) + " x " + number(w.height) + " x " + number(w.width) + " x " + number(w.channels) +
         " by " + number(c.shape.filters) + " filters of " + number(w.window_height) + " x " + number(w.window_width) +
         ", stride " + number(w.stride);
}

bool IsAligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kAlignment == 0; }

// cuDNN's descriptors for a shape, released by cuDNN's functions. Layouts are NHWC, filters KHWC.
struct Plan {
  explicit Plan(const Cudnn* functions) : dnn(functions) {}
  ~Plan() {
    if (convolution != nullptr) (void)dnn->DestroyConvolutionDescriptor(convolution);
    if (filter != nullptr) (void)dnn->DestroyFilterDescriptor(filter);
    if (out != nullptr) (void)dnn->DestroyTensorDescriptor(out);
    if (image != nullptr) (void)dnn->DestroyTensorDescriptor(image);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  static bool Did(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; }

  bool Describe(const Convolution& c) {
    const ImageWindows& w = c.shape.windows;
    const cudnnDataType_t type = TypeOf(c.numbers);
    const auto n = static_cast<int>(w.samples), channels = static_cast<int>(w.channels),
               filters = static_cast<int>(c.shape.filters), padding = static_cast<int>(w.padding),
               stride = static_cast<int>(w.stride);
    return Did(dnn->CreateTensorDescriptor(&image)) && Did(dnn->CreateTensorDescriptor(&out)) &&
           Did(dnn->CreateFilterDescriptor(&filter)) && Did(dnn->CreateConvolutionDescriptor(&convolution)) &&
           Did(dnn->SetTensor4dDescriptor(image, CUDNN_TENSOR_NHWC, type, n, channels, static_cast<int>(w.height),
                                          static_cast<int>(w.width))) &&
           Did(dnn->SetTensor4dDescriptor(out, CUDNN_TENSOR_NHWC, type, n, filters, static_cast<int>(w.out_height()),
                                          static_cast<int>(w.out_width()))) &&
           Did(dnn->SetFilter4dDescriptor(filter, type, CUDNN_TENSOR_NHWC, filters, channels,
                                          static_cast<int>(w.window_height), static_cast<int>(w.window_width))) &&
           Did(dnn->SetConvolution2dDescriptor(convolution, padding, padding, stride, stride, 1, 1,
                                               CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)) &&
           Did(dnn->SetConvolutionMathType(convolution, MathOf(c.numbers)));
  }

  // Chooses the first of cuDNN's answers that gives the same bits each time, computes plain products (other algorithms
  // round their sums differently), and fits into the workspace. Returns false if there is none.
  template <class Answer, class Ask, class Measure>
  bool Choose(const Ask& ask, const Measure& measure, decltype(Answer::algo)* chosen) {
    std::array<Answer, kAnswersMax> answers{};
    int count = 0;
    if (!Did(ask(kAnswersMax, &count, answers.data()))) return false;
    for (int i = 0; i < count; ++i) {
      const Answer& answer = answers[static_cast<std::size_t>(i)];
      const bool good = Did(answer.status) && answer.determinism == CUDNN_DETERMINISTIC && IsProduct(answer.algo);
      if (!good || !Did(measure(answer.algo, &bytes)) || bytes > Convolutions::kWorkspaceBytes) continue;
      *chosen = answer.algo;
      return true;
    }
    return false;
  }

  bool Choose(cudnnHandle_t handle, ConvolutionPass pass) {
    switch (pass) {
      case ConvolutionPass::kForward:
        return Choose<cudnnConvolutionFwdAlgoPerf_t>(
            [&](auto... to) {
              return dnn->GetConvolutionForwardAlgorithm_v7(handle, image, filter, convolution, out, to...);
            },
            [&](auto... of) {
              return dnn->GetConvolutionForwardWorkspaceSize(handle, image, filter, convolution, out, of...);
            },
            &forward);
      case ConvolutionPass::kInput:
        return Choose<cudnnConvolutionBwdDataAlgoPerf_t>(
            [&](auto... to) {
              return dnn->GetConvolutionBackwardDataAlgorithm_v7(handle, filter, out, convolution, image, to...);
            },
            [&](auto... of) {
              return dnn->GetConvolutionBackwardDataWorkspaceSize(handle, filter, out, convolution, image, of...);
            },
            &input);
      case ConvolutionPass::kFilter:
        return Choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
            [&](auto... to) {
              return dnn->GetConvolutionBackwardFilterAlgorithm_v7(handle, image, out, convolution, filter, to...);
            },
            [&](auto... of) {
              return dnn->GetConvolutionBackwardFilterWorkspaceSize(handle, image, out, convolution, filter, of...);
            },
            &weights);
    }
    return false;
  }

  cudnnStatus_t Run(cudnnHandle_t handle, ConvolutionPass pass, const Convolutions::Pointers& p, float beta,
                    void* workspace) const {
    const float alpha = 1;
    switch (pass) {
      case ConvolutionPass::kForward:
        return dnn->ConvolutionForward(handle, &alpha, image, p.image, filter, p.filter, convolution, forward,
                                       workspace, bytes, &beta, out, p.out);
      case ConvolutionPass::kInput:
        return dnn->ConvolutionBackwardData(handle, &alpha, filter, p.filter, out, p.image, convolution, input,
                                            workspace, bytes, &beta, image, p.out);
      case ConvolutionPass::kFilter:
        return dnn->ConvolutionBackwardFilter(handle, &alpha, image, p.image, out, p.filter, convolution, weights,
                                              workspace, bytes, &beta, filter, p.out);
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
  }

  const Cudnn* dnn;
  cudnnTensorDescriptor_t image = nullptr, out = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnConvolutionFwdAlgo_t forward{};
  cudnnConvolutionBwdDataAlgo_t input{};
  cudnnConvolutionBwdFilterAlgo_t weights{};
  std::size_t bytes = 0;
};

class CudnnConvolutions final : public Convolutions {
 public:
  explicit CudnnConvolutions(Cudnn dnn) : dnn_(std::move(dnn)) {}
  ~CudnnConvolutions() override {
    plans_.clear();
    if (handle_ != nullptr) (void)dnn_.Destroy(handle_);
  }

  Status Start(CUstream_st* stream) {
    cudnnStatus_t status = dnn_.Create(&handle_);
    if (status != CUDNN_STATUS_SUCCESS) handle_ = nullptr;
    if (status == CUDNN_STATUS_SUCCESS) status = dnn_.SetStream(handle_, stream);
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return Unsupported("cuDNN does not start: " + std::string(dnn_.GetErrorString(status)));
  }

  bool Run(CudaContext& context, const Convolution& convolution, const Pointers& pointers, float beta) override {
    if (!IsAligned(pointers.image) || !IsAligned(pointers.filter) || !IsAligned(pointers.out)) return false;
    std::unique_ptr<Plan>& plan = PlanFor(convolution);
    if (plan == nullptr) return false;
    if (workspace_ == nullptr) workspace_ = context.Allocate(kWorkspaceBytes);
    if (!context.status().ok()) return true;
    const cudnnStatus_t status = plan->Run(handle_, convolution.pass, pointers, beta, workspace_.get());
    if (status == CUDNN_STATUS_SUCCESS) return true;
    const std::string what = ToString(convolution) + ": " + dnn_.GetErrorString(status);
    if (status / 1000 != CUDNN_STATUS_NOT_SUPPORTED / 1000) {
      context.Fail({Code::kUnreachable, "cuDNN, the convolution " + what});
      return true;
    }
    plan = nullptr;
    Refuse(what);
    return false;
  }

  std::string TakeRefusals() override { return std::exchange(refusals_, {}); }

 private:
  std::unique_ptr<Plan>& PlanFor(const Convolution& convolution) {
    const auto [at, is_new] = plans_.try_emplace(convolution);
    if (!is_new) return at->second;
    auto plan = std::make_unique<Plan>(&dnn_);
    if (plan->Describe(convolution) && plan->Choose(handle_, convolution.pass)) {
      at->second = std::move(plan);
    } else {
      Refuse(ToString(convolution) + ": no deterministic product");
    }
    return at->second;
  }

  void Refuse(const std::string& what) { refusals_ += (refusals_.empty() ? "" : "; ") + what; }

  const Cudnn dnn_;
  cudnnHandle_t handle_ = nullptr;
  CudaContext::Memory workspace_;
  std::map<Convolution, std::unique_ptr<Plan>> plans_;  // null: unsupported
  std::string refusals_;
};

}  // namespace

Result<std::string> LoadConvolutions(const LibrarySearch& search, CudaContext* context) {
  CAPSTAN_ASSIGN_OR_RETURN(Cudnn dnn, OpenCudnn(search));
  std::string name = dnn.name;
  auto convolutions = std::make_shared<CudnnConvolutions>(std::move(dnn));
  CAPSTAN_RETURN_IF_ERROR(convolutions->Start(context->stream()));
  context->UseConvolutions(convolutions);
  return name;
}

}  // namespace capstan::kernels
