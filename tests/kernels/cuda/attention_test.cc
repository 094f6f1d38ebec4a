// Attention on a device against the CPU in double, on the same inputs.
#include "kernels/attention.h"

#include <algorithm>
#include <vector>

#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

std::int64_t Elements(const AttentionShape& s) { return s.sequences * s.length * s.heads * s.head_width; }
std::int64_t Rows(const AttentionShape& s) { return s.sequences * s.length * s.heads; }

template <class T>
struct Result {
  std::vector<T> out;
  std::vector<Wide<T>> log_sum;
  std::vector<T> dqkv;

  bool operator==(const Result& other) const {
    return SameBits(out, other.out) && SameBits(log_sum, other.log_sum) && SameBits(dqkv, other.dqkv);
  }
};

// Runs the forward pass, and then the backward pass on the forward pass's outputs.
template <class T>
Result<T> OnDevice(const AttentionShape& s, const DropoutMask& dropout, const std::vector<T>& qkv,
                   const std::vector<T>& dout, std::int64_t offset = 0) {
  Device device;
  DeviceArray<T> device_qkv(device, qkv, offset), device_dout(device, dout, offset);
  DeviceArray<T> out(device, Elements(s), offset), dqkv(device, 3 * Elements(s), offset);
  DeviceArray<float> log_sum(device, Rows(s), offset);
  CausalAttention(
      device.context(),
      AttentionArgs<T>{
          .shape = s, .dropout = dropout, .qkv = device_qkv.get(), .out = out.get(), .log_sum = log_sum.get()});
  CausalAttentionBackward(device.context(), AttentionGradient<T>{.shape = s,
                                                                 .dropout = dropout,
                                                                 .qkv = device_qkv.get(),
                                                                 .out = out.get(),
                                                                 .log_sum = log_sum.get(),
                                                                 .dout = device_dout.get(),
                                                                 .dqkv = dqkv.get()});
  return {out.Read(), log_sum.Read(), dqkv.Read()};
}

Result<double> OnCpu(const AttentionShape& s, const DropoutMask& dropout, const std::vector<double>& qkv,
                     const std::vector<double>& dout) {
  CpuContext context(1);
  Result<double> result{Poison<double>(Elements(s)), Poison<double>(Rows(s)), Poison<double>(3 * Elements(s))};
  CausalAttention(context, AttentionArgs<double>{.shape = s,
                                                 .dropout = dropout,
                                                 .qkv = qkv.data(),
                                                 .out = result.out.data(),
                                                 .log_sum = result.log_sum.data()});
  CausalAttentionBackward(context, AttentionGradient<double>{.shape = s,
                                                             .dropout = dropout,
                                                             .qkv = qkv.data(),
                                                             .out = result.out.data(),
                                                             .log_sum = result.log_sum.data(),
                                                             .dout = dout.data(),
                                                             .dqkv = result.dqkv.data()});
  return result;
}

template <class T>
std::vector<T> PartOf(const std::vector<T>& dqkv, const AttentionShape& s, int part) {
  std::vector<T> values;
  const std::int64_t width = s.heads * s.head_width;
  for (std::int64_t row = 0; row < s.sequences * s.length; ++row) {
    const auto first = dqkv.begin() + (row * 3 + part) * width;
    values.insert(values.end(), first, first + width);
  }
  return values;
}

template <class T>
void CheckAgainstCpu(const AttentionShape& s, double probability, std::int64_t offset = 0) {
  CAPTURE(s.sequences, s.length, s.heads, s.head_width, probability, offset);
  const DropoutMask dropout{.key = 0x123456789ABCDEF, .probability = probability};
  std::vector<T> qkv = RandomNumbers<T>(3 * Elements(s), 1), dout = RandomNumbers<T>(Elements(s), 2);
  for (T& x : qkv) x = Narrow<T>(3 * Widen(x));  // so that probabilities differ
  const Result<T> ours = OnDevice(s, dropout, qkv, dout, offset);
  const Result<double> expected = OnCpu(s, dropout, Doubles(qkv), Doubles(dout));
  const double stored = std::is_same_v<T, float> ? 1e-5 : kRounded<T>;
  CHECK(Agree<T>("attention: out", RelativeDistance(ours.out, expected.out), stored));
  CHECK(Agree<float>("attention: log sum", RelativeDistance(ours.log_sum, expected.log_sum), 1e-5));
  if (s.length == 1) {  // one probability, 1, whatever the score: the gradients of q and k are only rounding errors
    CHECK(
        Agree<T>("attention: dqkv, length 1", RelativeDistance(ours.dqkv, expected.dqkv), std::min(1e-2, 4 * stored)));
    return;
  }
  const char* const names[] = {"attention: dq", "attention: dk", "attention: dv"};
  for (int part = 0; part < 3; ++part) {
    CHECK(Agree<T>(names[part], RelativeDistance(PartOf(ours.dqkv, s, part), PartOf(expected.dqkv, s, part)),
                   2 * stored));
  }
}

TEMPLATE_TEST_CASE("attention on a device", "[cuda][attention]", float, Bf16, Half) {
  for (const double probability : {0.0, 0.3}) {
    for (const AttentionShape s : {AttentionShape{1, 1, 1, 1},
                                   {2, 15, 3, 17},
                                   {1, 17, 2, 64},
                                   {2, 31, 1, 5},
                                   {1, 33, 2, 48},
                                   {1, 65, 1, 128},
                                   {1, 131, 2, 16},
                                   {1, 130, 1, 100}}) {
      CheckAgainstCpu<TestType>(s, probability);
    }
  }
}

TEMPLATE_TEST_CASE("attention on a device, arrays that are not aligned", "[cuda][attention]", float, Bf16, Half) {
  CheckAgainstCpu<TestType>({1, 33, 2, 64}, 0.3, 1);
}

TEMPLATE_TEST_CASE("attention on a device, of the sizes that are trained", "[cuda][attention]", float, Bf16, Half) {
  CheckAgainstCpu<TestType>({1, 257, 1, 64}, 0.0);
  CheckAgainstCpu<TestType>({1, 256, std::is_same_v<TestType, Bf16> ? 6 : 1, 64}, 0.1);
}

TEST_CASE("attention on a device gives the same bits again, and a sequence does not see the others",
          "[cuda][attention]") {
  const AttentionShape two{2, 70, 2, 32}, one{1, 70, 2, 32};
  const DropoutMask dropout{.key = 3, .probability = 0.2};
  const auto qkv = RandomNumbers<Bf16>(3 * Elements(two), 1), dout = RandomNumbers<Bf16>(Elements(two), 2);
  const Result<Bf16> first = OnDevice(two, dropout, qkv, dout);
  CHECK(first == OnDevice(two, dropout, qkv, dout));
  const Result<Bf16> alone = OnDevice<Bf16>(one, dropout, {qkv.begin(), qkv.begin() + 3 * Elements(one)},
                                            {dout.begin(), dout.begin() + Elements(one)});
  CHECK(SameBits(alone.out, {first.out.begin(), first.out.begin() + Elements(one)}));
  CHECK(SameBits(alone.dqkv, {first.dqkv.begin(), first.dqkv.begin() + 3 * Elements(one)}));
}

TEST_CASE("attention on a device does not see what comes later", "[cuda][attention]") {
  const AttentionShape s{1, 40, 1, 16};
  auto qkv = RandomNumbers<Half>(3 * Elements(s), 1);
  const auto dout = RandomNumbers<Half>(Elements(s), 2);
  const Result<Half> before = OnDevice<Half>(s, {}, qkv, dout);
  const std::int64_t half = Elements(s) / 2;
  const auto others = RandomNumbers<Half>(3 * half, 3);
  std::copy(others.begin(), others.end(), qkv.begin() + 3 * half);
  const Result<Half> after = OnDevice<Half>(s, {}, qkv, dout);
  CHECK(SameBits<Half>({before.out.begin(), before.out.begin() + half}, {after.out.begin(), after.out.begin() + half}));
  CHECK(!SameBits(before.out, after.out));
}

}  // namespace
}  // namespace capstan::kernels
