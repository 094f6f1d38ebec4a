#include "worker/device/numeric_class.h"

#include "kernels/matmul.h"
#include "tests/catch.h"

namespace capstan::train {
namespace {

// Returns the fingerprint that the CPU computes with so many threads.
std::uint64_t FingerprintOf(Precision precision, int threads) {
  kernels::CpuContext context(threads);
  const nn::MlpShape any{.features = 3, .classes = 2};
  return CreateJobModel(context, precision, any).value()->NumericFingerprint().value();
}

TEST_CASE("each precision has its numeric class and fingerprint, whatever the number of threads", "[train]") {
  const auto name = [](Precision precision) { return NumericClass(precision, CpuName(precision)); };
  CHECK(name(Precision::kFp32).find(", fp32, cpu") != std::string::npos);
  CHECK(name(Precision::kBf16).find(", bf16, cpu") != std::string::npos);
  const std::string products = kernels::MatmulDispatchName();
  CHECK((name(Precision::kBf16).find(products) != std::string::npos) == products.ends_with("-bf16"));
  CHECK(name(Precision::kFp32).find(products) == std::string::npos);
  CHECK(name(Precision::kFp16).find(", fp16, cpu") != std::string::npos);
  const std::uint64_t wide = FingerprintOf(Precision::kFp32, 1), bf16 = FingerprintOf(Precision::kBf16, 1),
                      half = FingerprintOf(Precision::kFp16, 1);
  CHECK(wide != bf16);
  CHECK(wide != half);
  CHECK(bf16 != half);
  CHECK(FingerprintOf(Precision::kFp32, 2) == wide);
  CHECK(FingerprintOf(Precision::kBf16, 2) == bf16);
  CHECK(FingerprintOf(Precision::kFp16, 2) == half);
}

}  // namespace
}  // namespace capstan::train
