// Prints figures of a device (GPU), each on a line as soon as it is measured. Together the lines are a JSON array like
// that of `capstan bench -o json`:
//
//   device_bench libraries                                         the library for products, or where it was searched
//   device_bench facts                                             the device, its driver, the library for products
//   device_bench kernels [--batch B] [--small]
//   device_bench steps gpt|resnet18|convnet|mlp [--batch B] [--length T] [--vocabulary V] [--precision bf16]
//                      [--steps N] [--small]
//
// --small: shapes for the emulated device. Exits with 77 if there is no device; `libraries` needs none.
#include "bench/device_bench.h"

#include <cuda_runtime.h>

#include <nlohmann/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "common/base/float_control.h"
#include "kernels/cuda/load_products.h"

namespace capstan::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kNoDevice = 77;

class JsonPrinter {
 public:
  void Print(const DeviceFigure& figure) {
    const Json none;
    const Json line = {{"name", figure.name},
                       {"value", figure.value},
                       {"unit", figure.unit},
                       {"limit", figure.limit == 0 ? none : Json(figure.limit)},
                       {"limit_name", figure.limit_name},
                       {"ratio", figure.limit == 0 ? none : Json(figure.value / figure.limit)},
                       {"microseconds", figure.microseconds}};
    std::printf("%s%s\n", count_++ == 0 ? "[" : ",", line.dump().c_str());
    std::fflush(stdout);
  }
  void End() { std::printf("%s]\n", count_ == 0 ? "[" : ""); }

 private:
  int count_ = 0;
};

Result<std::string> Products() {
  kernels::CudaContext context(nullptr);
  return kernels::LoadProducts(kernels::SearchOf(std::getenv), &context);
}

Status PrintLibraries() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string products, Products());
  std::printf("%s\n", products.c_str());
  return {};
}

Status PrintFacts() {
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return Unsupported("the device does not say what it is");
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const Result<std::string> products = Products();
  const Json facts = {{"device", properties.name},
                      {"sm", properties.major * 10 + properties.minor},
                      {"multiprocessors", properties.multiProcessorCount},
                      {"memory_bytes", properties.totalGlobalMem},
                      {"cuda_of_driver", driver},
                      {"cuda_runtime", runtime},
                      {"products", products.ok() ? *products : products.status().message()}};
  std::printf("%s\n", facts.dump().c_str());
  return {};
}

// The words of the command line, and its options by name, such as "--batch". Every option except --small has a value.
struct Arguments {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  std::int64_t Number(const std::string& name, std::int64_t otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::strtoll(found->second.c_str(), nullptr, 10);
  }
};

Result<Arguments> Read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      arguments.words.push_back(word);
    } else if (word == "--small") {
      arguments.options[word] = "1";
    } else if (i + 1 < argc) {
      arguments.options[word] = argv[++i];
    } else {
      return Invalid("a value is missing after " + word);
    }
  }
  return arguments;
}

Result<Precision> PrecisionOf(const Arguments& arguments) {
  const std::map<std::string, Precision> known = {
      {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}, {"fp32", Precision::kFp32}};
  const auto given = arguments.options.find("--precision");
  if (given == arguments.options.end()) return Precision::kBf16;
  const auto found = known.find(given->second);
  if (found == known.end()) return Invalid("no precision is named \"" + given->second + "\"");
  return found->second;
}

Status Measure(const Arguments& arguments, const Report& report) {
  const bool small = arguments.options.count("--small") > 0;
  const kernels::LibrarySearch libraries = kernels::SearchOf(std::getenv);
  if (arguments.words[0] == "kernels") {
    return MeasureKernels({.batch = arguments.Number("--batch", 32), .is_small = small, .libraries = libraries},
                          report);
  }
  TrainingOptions options{.model = arguments.words.at(1), .is_small = small, .libraries = libraries};
  CAPSTAN_ASSIGN_OR_RETURN(options.precision, PrecisionOf(arguments));
  options.batch = arguments.Number("--batch", options.batch);
  options.length = arguments.Number("--length", options.length);
  options.vocabulary = arguments.Number("--vocabulary", options.vocabulary);
  options.steps = static_cast<int>(arguments.Number("--steps", options.steps));
  if (options.batch < 1 || options.length < 1 || options.vocabulary < 2 || options.steps < 1) {
    return Invalid("--batch, --length, --vocabulary and --steps are numbers from 1 on");
  }
  return MeasureSteps(options, report);
}

int Finish(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "device_bench: %s\n", status.message().c_str());
  return status.ok() ? kDone : kFailed;
}

int Run(const Arguments& arguments) {
  if (arguments.words[0] == "libraries") return Finish(PrintLibraries());
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "device_bench: SKIPPED, no CUDA device (%s)\n", cudaGetErrorString(status));
    return kNoDevice;
  }
  Status status;
  if (arguments.words[0] == "facts") {
    status = PrintFacts();
  } else {
    JsonPrinter printer;
    status = Measure(arguments, [&](const DeviceFigure& figure) { printer.Print(figure); });
    printer.End();
  }
  return Finish(status);
}

}  // namespace
}  // namespace capstan::bench

int main(int argc, char** argv) {
  const capstan::FloatControl control;
  const capstan::Result<capstan::bench::Arguments> arguments = capstan::bench::Read(argc, argv);
  const std::size_t words = arguments.ok() ? arguments->words.size() : 0;
  const std::string what = words == 0 ? "" : arguments->words[0];
  const bool stands_alone = what == "libraries" || what == "facts" || what == "kernels";
  if (!((words == 1 && stands_alone) || (words == 2 && what == "steps"))) {
    std::fprintf(stderr,
                 "device_bench: say libraries, facts, kernels or steps MODEL; the head of bench/device_bench.cc "
                 "has more\n");
    return capstan::bench::kUsage;
  }
  return capstan::bench::Run(*arguments);
}
