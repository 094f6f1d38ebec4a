#include "worker/train/numeric_class.h"

#include <catch2/catch.hpp>

#include "common/number16.h"
#include "kernels/matmul.h"

namespace capstan::train {
namespace {

TEST_CASE("each precision has its numeric class and fingerprint, whatever the number of threads", "[train]") {
  kernels::CpuContext one(1), two(2);
  CHECK(NumericClass<float>().find(", fp32, cpu") != std::string::npos);
  CHECK(NumericClass<Bf16>().find(", bf16, cpu") != std::string::npos);
  const std::string products = kernels::MatmulDispatchName();
  CHECK((NumericClass<Bf16>().find(products) != std::string::npos) == products.ends_with("-bf16"));
  CHECK(NumericClass<float>().find(products) == std::string::npos);
  CHECK(NumericClass<Half>().find(", fp16, cpu") != std::string::npos);
  const std::uint64_t wide = NumericFingerprint<float>(one), bf16 = NumericFingerprint<Bf16>(one),
                      half = NumericFingerprint<Half>(one);
  CHECK(wide != bf16);
  CHECK(wide != half);
  CHECK(bf16 != half);
  CHECK(NumericFingerprint<float>(two) == wide);
  CHECK(NumericFingerprint<Bf16>(two) == bf16);
  CHECK(NumericFingerprint<Half>(two) == half);
}

}  // namespace
}  // namespace capstan::train
