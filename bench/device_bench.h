// DeviceBench: times of a device's kernels and of a model's steps, next to the device's own limits in the same run.
//
// Kind:   for one thread; linked once with the CUDA kernels and, for its tests, once with the emulated ones.
// Fails:  as CudaContext and CreateDeviceModel.
// Why:    without servers and network, only the device's speed is measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/config/job/device.h"
#include "kernels/cuda/library_search.h"

namespace capstan::bench {

// A figure of a device: like Figure (figure.h), but with the time of one call, and without the ratio.
struct DeviceFigure {
  std::string name;
  double value = 0;
  std::string unit = {};
  double limit = 0;  // 0: no limit
  std::string limit_name = {};
  double microseconds = 0;
};

// Called with each figure as soon as it is measured.
using Report = std::function<void(const DeviceFigure&)>;

// Options for MeasureKernels, which measures each kernel and product at the shapes of GPT-2 124M, with `batch`
// sequences of 1024 tokens, and of resnet18. The limits are a copy within the device and a product of 8192 x 8192 x
// 8192 in bf16.
struct KernelOptions {
  std::int64_t batch = 32;
  bool is_small = false;  // shapes for an emulated device
  kernels::LibrarySearch libraries = {};
};
Status MeasureKernels(const KernelOptions& options, const Report& report);

// The number of GPT-2's tokens, 50257, padded with unused ones to align the rows of logits.
inline constexpr std::int64_t kPaddedVocabulary = 50304;

// Options for MeasureSteps, which measures steps of a model with synthetic data and weights.
struct TrainingOptions {
  std::string model = "gpt";  // gpt (124M), resnet18, convnet or mlp
  std::int64_t batch = 32;
  std::int64_t length = 1024;                   // gpt: tokens per sequence
  std::int64_t vocabulary = kPaddedVocabulary;  // gpt
  Precision precision = Precision::kBf16;
  int steps = 20;
  bool is_small = false;
  kernels::LibrarySearch libraries = {};
};
Status MeasureSteps(const TrainingOptions& options, const Report& report);

}  // namespace capstan::bench
