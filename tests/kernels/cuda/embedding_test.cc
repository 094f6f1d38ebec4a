// Embeddings on a device against the CPU, on the same tokens.
#include "kernels/embedding.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Shape {
  std::int64_t sequences, length, width;
  std::int32_t vocabulary;
  std::int64_t offset = 0;
};
// Shapes in which a token occurs once, up to 64 times, or more often; in which tokens have one, two or three digits of
// 8 bits; and in which the sort has one run of 512 rows, or several.
const std::vector<Shape> kShapes = {{1, 1, 1, 1},     {2, 15, 17, 4},     {3, 33, 31, 300}, {2, 257, 33, 3},
                                    {8, 32, 384, 65}, {2, 600, 8, 70000}, {4, 1023, 16, 2}, {2, 257, 64, 5, 1}};

template <class T>
std::vector<T> ForwardOnDevice(Shape s, const std::vector<std::int32_t>& tokens, const std::vector<T>& table,
                               const std::vector<T>& places) {
  Device device;
  DeviceArray<std::int32_t> device_tokens(device, tokens);
  DeviceArray<T> device_table(device, table, s.offset), device_places(device, places, s.offset);
  DeviceArray<T> y(device, s.sequences * s.length * s.width, s.offset);
  Embedding(device.context(), EmbeddingArgs<T>{.sequences = s.sequences,
                                               .length = s.length,
                                               .width = s.width,
                                               .tokens = device_tokens.get(),
                                               .token_table = device_table.get(),
                                               .position_table = device_places.get(),
                                               .y = y.get()});
  return y.Read();
}

TEMPLATE_TEST_CASE("an embedding on a device is that of a CPU, bit for bit", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  CpuContext cpu(1);
  for (const Shape s : kShapes) {
    CAPTURE(s.sequences, s.length, s.width, s.vocabulary, s.offset);
    const auto tokens = RandomIndices(s.sequences * s.length, s.vocabulary, 1);
    const auto table = RandomNumbers<T>(s.vocabulary * s.width, 2), places = RandomNumbers<T>(s.length * s.width, 3);
    std::vector<T> expected = Poison<T>(s.sequences * s.length * s.width);
    Embedding(cpu, EmbeddingArgs<T>{.sequences = s.sequences,
                                    .length = s.length,
                                    .width = s.width,
                                    .tokens = tokens.data(),
                                    .token_table = table.data(),
                                    .position_table = places.data(),
                                    .y = expected.data()});
    CHECK(SameBits(ForwardOnDevice(s, tokens, table, places), expected));
  }
}

template <class Number>
struct Gradients {
  std::vector<Number> tokens, places;
};

template <class T>
Gradients<float> BackwardOnDevice(Shape s, const std::vector<std::int32_t>& tokens, const std::vector<T>& dy,
                                  const Gradients<float>& old, float beta) {
  Device device;
  DeviceArray<std::int32_t> device_tokens(device, tokens);
  DeviceArray<T> device_dy(device, dy, s.offset);
  DeviceArray<float> of_tokens(device, old.tokens, s.offset);
  DeviceArray<float> of_places(device, beta == 0 ? Poison<float>(s.length * s.width) : old.places, s.offset);
  EmbeddingBackward(device.context(), EmbeddingGradient<T>{.sequences = s.sequences,
                                                           .length = s.length,
                                                           .width = s.width,
                                                           .vocabulary = s.vocabulary,
                                                           .tokens = device_tokens.get(),
                                                           .dy = device_dy.get(),
                                                           .token_gradient = of_tokens.get(),
                                                           .position_gradient = of_places.get(),
                                                           .position_beta = beta});
  return {of_tokens.Read(), of_places.Read()};
}

template <class T>
Gradients<Wide<T>> BackwardOnCpu(Shape s, const std::vector<std::int32_t>& tokens, const std::vector<T>& dy,
                                 Gradients<Wide<T>> gradients, Wide<T> beta) {
  CpuContext cpu(1);
  EmbeddingBackward(cpu, EmbeddingGradient<T>{.sequences = s.sequences,
                                              .length = s.length,
                                              .width = s.width,
                                              .tokens = tokens.data(),
                                              .dy = dy.data(),
                                              .token_gradient = gradients.tokens.data(),
                                              .position_gradient = gradients.places.data(),
                                              .position_beta = beta});
  return gradients;
}

TEMPLATE_TEST_CASE("gradients of an embedding on a device are those of double", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : kShapes) {
    const auto tokens = RandomIndices(s.sequences * s.length, s.vocabulary, 1);
    const auto dy = RandomNumbers<T>(s.sequences * s.length * s.width, 4);
    const Gradients<float> old{RandomNumbers<float>(s.vocabulary * s.width, 5),
                               RandomNumbers<float>(s.length * s.width, 6)};
    for (const float beta : {0.0F, 0.5F}) {
      CAPTURE(s.sequences, s.length, s.width, s.vocabulary, s.offset, beta);
      const auto ours = BackwardOnDevice(s, tokens, dy, old, beta), again = BackwardOnDevice(s, tokens, dy, old, beta);
      CHECK(SameBits(ours.tokens, again.tokens));
      CHECK(SameBits(ours.places, again.places));
      const auto wide = BackwardOnCpu<double>(s, tokens, Doubles(dy), {Doubles(old.tokens), Doubles(old.places)},
                                              static_cast<double>(beta));
      CHECK(Agree<T>("embedding: dtable", RelativeDistance(ours.tokens, wide.tokens), 1e-5));
      CHECK(Agree<T>("embedding: dpositions", RelativeDistance(ours.places, wide.places), 1e-5));
    }
  }
}

TEST_CASE("rows of tokens that come up to 64 times are added in a CPU's order", "[cuda]") {
  const Shape s{8, 80, 40, 10};
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 640; ++i) tokens.push_back(i * 7 % 10);
  const auto dy = RandomNumbers<Bf16>(s.sequences * s.length * s.width, 4);
  const Gradients<float> old{RandomNumbers<float>(s.vocabulary * s.width, 5),
                             RandomNumbers<float>(s.length * s.width, 6)};
  const auto ours = BackwardOnDevice(s, tokens, dy, old, 0.5F), cpu = BackwardOnCpu(s, tokens, dy, old, 0.5F);
  CHECK(SameBits(ours.tokens, cpu.tokens));
  CHECK(SameBits(ours.places, cpu.places));
}

}  // namespace
}  // namespace capstan::kernels
