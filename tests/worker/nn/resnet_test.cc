// Residual networks: gradients, running statistics, sizes. The comparison with PyTorch is in tests/parity.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/random_fill.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "worker/nn/model.h"

namespace capstan::nn {
namespace {

using kernels::CpuContext;
using kernels::DotOf;
using kernels::Poison;
using kernels::RandomNumbers;

const ResnetShape kBasic{.image = {9, 11, 3}, .classes = 5, .depth = 18, .width = 3};
const ResnetShape kBottleneck{.image = {13, 8, 1}, .classes = 3, .depth = 50, .width = 2};
const ResnetShape kLargeImage{.image = {65, 33, 2}, .classes = 4, .depth = 18, .width = 2};

struct Samples {
  Samples(const ResnetShape& shape, std::int64_t samples, std::uint64_t seed)
      : count(samples),
        inputs(RandomNumbers<float>(samples * shape.image.elements(), seed)),
        targets(kernels::RandomIndices(samples, static_cast<std::int32_t>(shape.classes), seed + 1)) {}

  Batch View() const { return {.samples = count, .inputs = inputs, .tokens = {}, .targets = targets}; }

  std::int64_t count;
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
};

template <class Real>
std::unique_ptr<Model<Real>> Make(CpuContext& context, const ResnetShape& shape) {
  auto model = CreateResnet<Real>(context, shape);
  REQUIRE(model.ok());
  return std::move(model).value();
}

std::int64_t ElementsOf(const std::vector<TensorSpec>& tensors, TensorKind kind) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.kind == kind) count += static_cast<std::int64_t>(tensor.ElementCount());
  }
  return count;
}

std::int64_t SizeOf(const std::vector<TensorSpec>& tensors) {
  return ElementsOf(tensors, TensorKind::kParameter) + ElementsOf(tensors, TensorKind::kStatistic);
}

// Returns initial weights as the tensors declare them, except that a norm's channels differ: uniform in 1 +- 0.3 for
// ones, in +- 0.3 for zeros.
template <class Real>
std::vector<Real> SomeWeights(const std::vector<TensorSpec>& tensors) {
  std::vector<Real> weights;
  std::uint64_t key = 50;
  for (const TensorSpec& tensor : tensors) {
    std::vector<float> values(tensor.ElementCount());
    const bool is_norm = tensor.init.kind == InitKind::kOnes || tensor.init.kind == InitKind::kZeros;
    if (tensor.init.kind == InitKind::kNormal) {
      kernels::FillNormal(key++, 0, tensor.init.scale, values);
    } else {
      kernels::FillUniform(key++, 0, is_norm ? 0.3F : tensor.init.scale, values);
    }
    for (const float v : values) weights.push_back(Narrow<Real>(tensor.init.kind == InitKind::kOnes ? 1 + v : v));
  }
  return weights;
}

// Returns `values`, with 0 in place of the elements of tensors of other kinds than `kind`.
template <class Real>
std::vector<Real> Only(TensorKind kind, const std::vector<TensorSpec>& tensors, std::vector<Real> values) {
  std::size_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::size_t end = at + tensor.ElementCount();
    for (; at < end; ++at) values[at] = tensor.kind == kind ? values[at] : Real(0);
  }
  return values;
}

template <class Real>
std::vector<Real> GradientsOf(CpuContext& context, const ResnetShape& shape, const Samples& samples,
                              const TrainOptions& options = {}) {
  const auto model = Make<Real>(context, shape);
  const auto weights = SomeWeights<Real>(model->tensors());
  auto gradients = Poison<Real>(static_cast<std::int64_t>(weights.size()));
  model->Train(weights.data(), gradients.data(), samples.View(), {}, options, {});
  return gradients;
}

TEST_CASE("each tensor's gradient along a random direction is the slope of the loss", "[nn][resnet][long]") {
  CpuContext context(2);
  for (const ResnetShape& shape : {kBasic, kBottleneck, kLargeImage}) {
    const auto model = Make<double>(context, shape);
    const auto& tensors = model->tensors();
    const auto weights = SomeWeights<double>(tensors);
    const Samples samples(shape, 3, 10);
    auto gradients = Poison<double>(SizeOf(tensors)), ignored = gradients;
    model->Train(weights.data(), gradients.data(), samples.View(), {}, {.gradient_scale = 0.25}, {});
    const auto direction = RandomNumbers<double>(SizeOf(tensors), 12);
    std::size_t first = 0;
    for (const TensorSpec& tensor : tensors) {
      const std::size_t last = first + tensor.ElementCount();
      const auto loss_at = [&](double step) {
        std::vector<double> moved = weights;
        for (std::size_t i = first; i < last; ++i) moved[i] += step * direction[i];
        return 0.25 * model->Train(moved.data(), ignored.data(), samples.View(), {}, {}, {}).loss;
      };
      double expected = 0;
      for (std::size_t i = first; i < last; ++i) expected += gradients[i] * direction[i];
      const double slope = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6;
      CAPTURE(shape.depth, tensor.name);
      if (tensor.kind == TensorKind::kParameter) {
        CHECK(expected == Approx(slope).epsilon(1e-4).margin(1e-7));
      } else {
        CHECK(slope == 0);
      }
      first = last;
    }
    // Gradients in float must be close to those in double. The bound is wide, because batch norms over few rows magnify
    // rounding.
    const auto narrow = GradientsOf<float>(context, shape, samples, {.gradient_scale = 0.25});
    CHECK(kernels::RelativeDistance(narrow, gradients) < 1e-3);
  }
}

TEST_CASE("one and three threads give a resnet's gradients the same bits", "[nn][resnet]") {
  CpuContext one(1), three(3);
  for (const ResnetShape& shape : {kBasic, kBottleneck, kLargeImage}) {
    const Samples samples(shape, 5, 13);
    CHECK(GradientsOf<float>(one, shape, samples) == GradientsOf<float>(three, shape, samples));
  }
}

TEST_CASE("what is measured for a batch is what training a resnet takes", "[nn][resnet][memory]") {
  for (const ResnetShape& shape : {kBasic, kBottleneck, kLargeImage}) {
    CpuContext context(1);
    const auto model = Make<float>(context, shape);
    const std::vector<float> weights = SomeWeights<float>(model->tensors());
    std::vector<float> gradients(weights.size());
    const std::size_t measured = model->MeasureActivations(2);
    CHECK(measured > model->MeasureActivations(1));
    model->Train(weights.data(), gradients.data(), Samples(shape, 2, 7).View(), {}, {}, {});
    CHECK(model->activation_bytes() == measured);
  }
}

TEMPLATE_TEST_CASE("recomputed blocks give the same bits, statistics too, in less memory", "[nn][resnet]", float,
                   double, Bf16, Half) {
  using T = TestType;
  for (const ResnetShape& shape : {kBasic, kBottleneck, kLargeImage}) {
    const auto train = [&](bool recompute, int threads) {
      CpuContext context(threads);
      ResnetShape again = shape;
      again.recompute = recompute;
      const auto model = Make<T>(context, again);
      const std::vector<T> weights = SomeWeights<T>(model->tensors());
      auto gradients = Poison<Wide<T>>(static_cast<std::int64_t>(weights.size()));
      // Two micro-batches. The second one adds its gradients and statistics to the first one's.
      model->Train(weights.data(), gradients.data(), Samples(shape, 4, 40).View(), {}, {.sample_share = 0.5}, {});
      model->Train(weights.data(), gradients.data(), Samples(shape, 3, 50).View(), {},
                   {.mode = GradientMode::kAdd, .sample_share = 0.5}, {});
      return std::pair(gradients, model->MeasureActivations(4));
    };
    const auto [kept, kept_bytes] = train(false, 1);
    const auto [again, again_bytes] = train(true, 2);
    CAPTURE(shape.depth, kept_bytes, again_bytes);
    CHECK(kernels::SameBits(again, kept));
    CHECK(again_bytes < kept_bytes * (shape.depth == 18 ? 8 : 5) / 10);
  }
}

TEST_CASE("statistics are means over a slot's samples, whatever the gradient's scale", "[nn][resnet]") {
  CpuContext context(1);
  for (const ResnetShape& shape : {kBasic, kBottleneck}) {
    const auto model = Make<double>(context, shape);
    const auto& tensors = model->tensors();
    const auto weights = SomeWeights<double>(tensors);
    const Samples first(shape, 1, 20), second(shape, 3, 21);
    auto added = Poison<double>(SizeOf(tensors));
    model->Train(weights.data(), added.data(), first.View(), {}, {.gradient_scale = 64, .sample_share = 0.25}, {});
    model->Train(weights.data(), added.data(), second.View(), {},
                 {.gradient_scale = 64, .mode = GradientMode::kAdd, .sample_share = 0.75}, {});
    auto expected = GradientsOf<double>(context, shape, first);
    const auto other = GradientsOf<double>(context, shape, second);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 0.25 * expected[i] + 0.75 * other[i];
    const auto kind = TensorKind::kStatistic;
    CHECK(kernels::RelativeDistance(Only(kind, tensors, added), Only(kind, tensors, expected)) < 1e-13);
    CHECK(ElementsOf(tensors, kind) > 0);
  }
}

TEST_CASE("running statistics are read in Evaluate only", "[nn][resnet]") {
  CpuContext context(1);
  for (const ResnetShape& shape : {kBasic, kBottleneck}) {
    const auto model = Make<float>(context, shape);
    const auto& tensors = model->tensors();
    const auto weights = SomeWeights<float>(tensors);
    const Samples samples(shape, 3, 30);
    const auto expected = GradientsOf<float>(context, shape, samples);
    auto poisoned = weights, gradients = Poison<float>(SizeOf(tensors));
    const auto statistics = Only(TensorKind::kStatistic, tensors, std::vector<float>(weights.size(), 1));
    for (std::size_t i = 0; i < weights.size(); ++i) poisoned[i] = statistics[i] == 1 ? NAN : weights[i];
    model->Train(poisoned.data(), gradients.data(), samples.View(), {}, {}, {});
    CHECK(gradients == expected);
    CHECK(std::isnan(model->Evaluate(poisoned.data(), samples.View(), {}).loss));
    const double loss = model->Evaluate(weights.data(), samples.View(), {}).loss;
    CHECK(std::isfinite(loss));
    // In Evaluate a sample's loss does not depend on the other samples: the losses of single samples add up.
    double apart = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto features = static_cast<std::size_t>(shape.image.elements());
      const Batch one{.samples = 1,
                      .inputs = std::span(samples.inputs).subspan(i * features, features),
                      .tokens = {},
                      .targets = std::span(samples.targets).subspan(i, 1)};
      apart += model->Evaluate(weights.data(), one, {}).loss;
    }
    CHECK(apart == Approx(loss).epsilon(1e-6));
  }
}

TEST_CASE("a resnet's hooks name every tensor once, in catalog order on the way forward", "[nn][resnet][hooks]") {
  CpuContext context(1);
  for (const ResnetShape& shape : {kBasic, kBottleneck, kLargeImage}) {
    const auto model = Make<float>(context, shape);
    const auto& tensors = model->tensors();
    std::vector<std::ptrdiff_t> offsets = {0};
    for (const TensorSpec& tensor : tensors) {
      offsets.push_back(offsets.back() + static_cast<std::ptrdiff_t>(tensor.ElementCount()));
    }
    const Samples samples(shape, 2, 40);
    const auto given = SomeWeights<float>(tensors);
    const auto expected = GradientsOf<float>(context, shape, samples);
    // Weights are NaN until requested; gradients are copied when they are reported as final.
    auto weights = Poison<float>(SizeOf(tensors)), gradients = weights, finals = weights;
    TensorIndex next = 0;
    int out_of_order = 0;
    std::vector<int> ready(tensors.size());
    Hooks hooks;
    hooks.need_weights = [&](TensorIndex first, TensorIndex last) {
      out_of_order += first != next || last < first;
      next = last + 1;
      std::copy(given.begin() + offsets[first], given.begin() + offsets[last + 1], weights.begin() + offsets[first]);
    };
    hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
      for (TensorIndex t = first; t <= last; ++t) ++ready[t];
      std::copy(gradients.begin() + offsets[first], gradients.begin() + offsets[last + 1],
                finals.begin() + offsets[first]);
    };
    model->Train(weights.data(), gradients.data(), samples.View(), {}, {}, hooks);
    CHECK(next == tensors.size());
    CHECK(out_of_order == 0);
    CHECK(ready == std::vector<int>(tensors.size(), 1));
    CHECK(finals == expected);
  }
}

TEMPLATE_TEST_CASE("a resnet learns a few images by heart", "[nn][resnet]", float, Bf16, Half) {
  using T = TestType;
  CpuContext context(2);
  const ResnetShape shape{.image = {8, 8, 3}, .classes = 4, .depth = 18, .width = 8};
  const auto model = Make<T>(context, shape);
  const auto& tensors = model->tensors();
  auto weights = SomeWeights<float>(tensors), gradients = weights;
  std::vector<T> stored(weights.size());
  const auto store = [&] {
    for (std::size_t i = 0; i < weights.size(); ++i) stored[i] = Narrow<T>(weights[i]);
    return stored.data();
  };
  const auto statistics = Only(TensorKind::kStatistic, tensors, std::vector<float>(weights.size(), 1));
  const Samples samples(shape, 8, 60);
  for (int step = 0; step < 60; ++step) {
    model->Train(store(), gradients.data(), samples.View(), {}, {.gradient_scale = 1.0 / 8}, {});
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] += statistics[i] == 1 ? 0.1F * (gradients[i] - weights[i]) : -0.05F * gradients[i];
    }
  }
  const LossSums learned = model->Evaluate(store(), samples.View(), {}, weights.data());
  CHECK(learned.correct == 8);
  CHECK(learned.loss / 8 < 0.1);
}

TEST_CASE("depths have the published numbers of parameters", "[nn][resnet]") {
  CpuContext context(1);
  const auto parameters = [&](std::int64_t depth, const ImageSize& image, std::int64_t classes) {
    const ResnetShape shape{.image = image, .classes = classes, .depth = depth};
    return ElementsOf(Make<float>(context, shape)->tensors(), TensorKind::kParameter);
  };
  CHECK(parameters(18, {224, 224, 3}, 1000) == 11689512);
  CHECK(parameters(34, {224, 224, 3}, 1000) == 21797672);
  CHECK(parameters(50, {224, 224, 3}, 1000) == 25557032);
  CHECK(parameters(101, {224, 224, 3}, 1000) == 44549160);
  CHECK(parameters(152, {224, 224, 3}, 1000) == 60192808);
  CHECK(parameters(18, {32, 32, 3}, 10) == 11173962);
}

TEST_CASE("a resnet's tensors have torchvision's names, and running statistics stand behind their norm",
          "[nn][resnet]") {
  CpuContext context(1);
  const auto model = Make<float>(context, kBottleneck);
  const auto& tensors = model->tensors();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 25; ++i) names.push_back(tensors[i].name);
  std::vector<std::string> expected = {"conv1.weight"};
  const auto norm = [&](const std::string& name) {
    for (const char* end : {".weight", ".bias", ".running_mean", ".running_var"}) expected.push_back(name + end);
  };
  norm("bn1");
  for (const std::string unit : {"1", "2", "3"}) {
    expected.push_back("layer1.0.conv" + unit + ".weight");
    norm("layer1.0.bn" + unit);
  }
  expected.push_back("layer1.0.downsample.0.weight");
  norm("layer1.0.downsample.1");
  CHECK(names == expected);
  CHECK(tensors.back().name == "fc.bias");
  CHECK(tensors[0].shape == std::vector<std::int64_t>{2, 3, 3, 1});
  CHECK(tensors[0].init == Init{InitKind::kNormal, static_cast<float>(std::sqrt(2.0 / 18))});
  CHECK(tensors[15].shape == std::vector<std::int64_t>{8, 1, 1, 2});
  for (const TensorSpec& tensor : tensors) {
    const bool is_statistic = tensor.name.find(".running_") != std::string::npos;
    CHECK((tensor.kind == TensorKind::kStatistic) == is_statistic);
    CHECK(tensor.decay == (tensor.shape.size() >= 2));
    if (is_statistic) CHECK(tensor.init.kind == (tensor.name.ends_with("mean") ? InitKind::kZeros : InitKind::kOnes));
  }
}

TEST_CASE("a resnet's wrong size is refused by its name", "[nn][resnet]") {
  CpuContext context(1);
  const auto says = [&](const ResnetShape& shape) { return CreateResnet<float>(context, shape).status(); };
  CHECK(says({.image = {1, 1, 1}, .classes = 2, .depth = 18, .width = 1}).ok());
  CHECK(says({.image = {8, 8, 1}, .classes = 2, .depth = 19}).message() ==
        "model.depth is 19; a resnet has 18, 34, 50, 101 or 152 layers");
  CHECK(says({.image = {8, 8, 1}, .classes = 0, .depth = 18}).message().find("model.classes") != std::string::npos);
  CHECK(says({.image = {8, 8, 1}, .classes = 2, .depth = 18, .width = 4096}).message().find("model.width") !=
        std::string::npos);
  CHECK(says({.image = {8, 0, 1}, .classes = 2, .depth = 18}).message().find("an image of 8 x 0") != std::string::npos);
}

}  // namespace
}  // namespace capstan::nn
