// Properties that every model has: gradients, independence of threads, accumulation, hooks, dropout.
#include "worker/nn/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/random_fill.h"
#include "tests/catch.h"
#include "tests/worker/nn/subjects.h"
#include "worker/client/finished_blocks.h"

namespace capstan::nn {
namespace {

using kernels::CpuContext;
using kernels::DotOf;
using kernels::Poison;
using kernels::RandomIndices;
using kernels::RelativeDistance;

struct Trained {
  std::vector<float> gradients;
  LossSums sums;
};

Trained TrainOnce(const Subject& subject, int threads, const Samples& samples, const StepKey& key) {
  CpuContext context(threads);
  const auto model = subject.Make<float>(context);
  const auto weights = SomeWeights(*model);
  Trained result{Poison<float>(static_cast<std::int64_t>(weights.size())), {}};
  result.sums = model->Train(weights.data(), result.gradients.data(), samples.View(), key, {.gradient_scale = 0.1}, {});
  return result;
}

TEST_CASE("a model's gradients are those of finite differences", "[nn]") {
  CpuContext context(1);
  for (const Subject& subject :
       {SmallMlp(0), SmallMlp(0.3), SmallConvnet(0), SmallConvnet(0.3), SmallGpt(0), SmallGpt(0.3)}) {
    const auto model = subject.Make<double>(context);
    const auto weights = SomeWeights(*model);
    const Samples samples = subject.MakeSamples(3, 10);
    auto gradients = Poison<double>(static_cast<std::int64_t>(weights.size()));
    auto ignored = gradients;
    model->Train(weights.data(), gradients.data(), samples.View(), kKey, {.gradient_scale = 0.25}, {});
    const auto numeric = kernels::NumericGradient(weights, [&](const std::vector<double>& w) {
      return 0.25 * model->Train(w.data(), ignored.data(), samples.View(), kKey, {}, {}).loss;
    });
    CAPTURE(subject.name, subject.mlp.dropout, subject.convnet.dropout, subject.gpt.dropout);
    CHECK(DotOf(numeric, numeric) > 1e-3);
    CHECK(RelativeDistance(gradients, numeric) < 1e-7);
  }
}

TEST_CASE("gradients along a random direction agree with the slope of the loss at trained sizes", "[nn]") {
  CpuContext context(2);
  for (const Subject& subject : {LargerMlp(0.1), LargerConvnet(0.1), LargerGpt(0.1)}) {
    const auto model = subject.Make<double>(context);
    const auto weights = SomeWeights(*model);
    const auto count = static_cast<std::int64_t>(weights.size());
    const Samples samples = subject.MakeSamples(2, 11);
    const auto direction = kernels::RandomNumbers<double>(count, 12);
    auto gradients = Poison<double>(count), ignored = gradients;
    model->Train(weights.data(), gradients.data(), samples.View(), kKey, {}, {});
    const auto loss_at = [&](double step) {
      std::vector<double> moved = weights;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
      return model->Train(moved.data(), ignored.data(), samples.View(), kKey, {}, {}).loss;
    };
    const double slope = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6;
    CAPTURE(subject.name);
    CHECK(DotOf(gradients, direction) == Approx(slope).epsilon(1e-5));
    // Gradients in float must be close to those in double.
    const Trained narrow = TrainOnce(subject, 1, samples, kKey);
    for (double& g : gradients) g *= 0.1;
    CHECK(RelativeDistance(narrow.gradients, gradients) < 1e-4);
  }
}

TEMPLATE_TEST_CASE("what is measured for a batch is what training it takes", "[nn][memory]", float, Bf16) {
  for (const Subject& subject : {LargerMlp(0.2), LargerGpt(0.2), LargerConvnet(0.2)}) {
    CAPTURE(subject.name);
    CpuContext context(1);
    const auto model = subject.Make<TestType>(context);
    const std::vector<TestType> weights = SomeWeights(*model);
    std::vector<float> gradients(weights.size());
    const std::size_t one = model->MeasureActivations(1), three = model->MeasureActivations(3);
    CHECK(one < three);
    CHECK(model->activation_bytes() == 0);
    model->Train(weights.data(), gradients.data(), subject.MakeSamples(3, 30).View(), kKey, {}, {});
    CHECK(model->activation_bytes() == three);
    model->ReserveActivations(2 * three);
    model->Train(weights.data(), gradients.data(), subject.MakeSamples(3, 30).View(), kKey, {}, {});
    CHECK(model->activation_bytes() == 2 * three);
  }
}

TEST_CASE("one and three threads give the same bits", "[nn]") {
  for (const Subject& subject : {LargerMlp(0.1), LargerConvnet(0.1), LargerGpt(0.1), LargerMlp(0), LargerGpt(0)}) {
    const Samples samples = subject.MakeSamples(5, 13);
    const Trained one = TrainOnce(subject, 1, samples, kKey), three = TrainOnce(subject, 3, samples, kKey);
    CAPTURE(subject.name);
    CHECK(one.gradients == three.gradients);
    CHECK(one.sums.loss == three.sums.loss);
    CHECK(one.sums.correct == three.sums.correct);
  }
}

TEST_CASE("micro-batches add up to the whole batch", "[nn]") {
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0), LargerConvnet(0), LargerGpt(0)}) {
    const auto model = subject.Make<double>(context);
    const auto weights = SomeWeights(*model);
    const Samples samples = subject.MakeSamples(5, 14);
    auto whole = Poison<double>(static_cast<std::int64_t>(weights.size())), added = whole;
    const LossSums sums = model->Train(weights.data(), whole.data(), samples.View(), kKey, {}, {});
    const LossSums first = model->Train(weights.data(), added.data(), samples.Part(0, 3).View(), kKey, {}, {});
    const LossSums second =
        model->Train(weights.data(), added.data(), samples.Part(3, 2).View(), kKey, {.mode = GradientMode::kAdd}, {});
    CAPTURE(subject.name);
    CHECK(RelativeDistance(added, whole) < 1e-12);
    CHECK(first.loss + second.loss == Approx(sums.loss).epsilon(1e-12));
    CHECK(first.count + second.count == sums.count);
    CHECK(first.correct + second.correct == sums.correct);
  }
}

TEST_CASE("dropout masks follow from seed, step, slot and micro-batch", "[nn][dropout]") {
  for (const Subject& subject : {LargerMlp(0.2), LargerConvnet(0.2), LargerGpt(0.2)}) {
    const Samples samples = subject.MakeSamples(2, 15);
    const Trained first = TrainOnce(subject, 1, samples, kKey);
    CHECK(TrainOnce(subject, 1, samples, kKey).gradients == first.gradients);
    for (const StepKey& other : {StepKey{9, 2, 3, 4}, StepKey{1, 9, 3, 4}, StepKey{1, 2, 9, 4}, StepKey{1, 2, 3, 9}}) {
      CHECK(TrainOnce(subject, 1, samples, other).sums.loss != first.sums.loss);
    }
  }
}

TEST_CASE("evaluation is training without dropout", "[nn]") {
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0.5), LargerConvnet(0.5), LargerGpt(0.5)}) {
    const auto model = subject.Make<float>(context);
    const auto weights = SomeWeights(*model);
    const Samples samples = subject.MakeSamples(3, 16);
    const LossSums evaluated = model->Evaluate(weights.data(), samples.View(), {});
    Subject plain = subject;
    plain.mlp.dropout = plain.convnet.dropout = plain.gpt.dropout = 0;
    const Trained trained = TrainOnce(plain, 1, samples, kKey);
    CHECK(evaluated.loss == trained.sums.loss);
    CHECK(evaluated.correct == trained.sums.correct);
    CHECK(evaluated.count == (subject.IsGpt() ? 3 * subject.gpt.context : 3));
    CHECK(TrainOnce(subject, 1, samples, kKey).sums.loss != evaluated.loss);
  }
}

TEST_CASE("hooks name every tensor once: weights before they are read, gradients when they are final", "[nn][hooks]") {
  CpuContext context(1);
  for (const Subject& subject : {SmallMlp(0.1), SmallConvnet(0.1), SmallGpt(0.1)}) {
    const auto model = subject.Make<float>(context);
    const auto& tensors = model->tensors();
    std::vector<std::size_t> offsets;
    std::size_t end = 0;
    for (const TensorSpec& tensor : tensors) {
      offsets.push_back(end);
      end += tensor.ElementCount();
    }
    offsets.push_back(end);
    const Samples samples = subject.MakeSamples(2, 17);
    const auto real_weights = SomeWeights(*model);
    std::vector<float> expected(real_weights.size());
    model->Train(real_weights.data(), expected.data(), samples.View(), kKey, {}, {});

    // Weights are NaN until requested; gradients are copied when they are reported as final.
    auto weights = Poison<float>(static_cast<std::int64_t>(end)), gradients = weights, final_gradients = weights;
    std::vector<int> needed(tensors.size()), ready(tensors.size());
    TensorIndex next_needed = 0;
    int out_of_order = 0;
    Hooks hooks;
    hooks.need_weights = [&](TensorIndex first, TensorIndex last) {
      out_of_order += first != next_needed;
      next_needed = last + 1;
      for (TensorIndex t = first; t <= last; ++t) ++needed[t];
      std::copy(real_weights.begin() + static_cast<std::ptrdiff_t>(offsets[first]),
                real_weights.begin() + static_cast<std::ptrdiff_t>(offsets[last + 1]),
                weights.begin() + static_cast<std::ptrdiff_t>(offsets[first]));
    };
    hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
      for (TensorIndex t = first; t <= last; ++t) ++ready[t];
      std::copy(gradients.begin() + static_cast<std::ptrdiff_t>(offsets[first]),
                gradients.begin() + static_cast<std::ptrdiff_t>(offsets[last + 1]),
                final_gradients.begin() + static_cast<std::ptrdiff_t>(offsets[first]));
    };
    model->Train(weights.data(), gradients.data(), samples.View(), kKey, {}, hooks);
    CHECK(needed == std::vector<int>(tensors.size(), 1));
    CHECK(ready == std::vector<int>(tensors.size(), 1));
    CHECK(out_of_order == 0);
    CHECK(final_gradients == expected);
  }
}

template <class T>
void CheckParts(int threads, const std::vector<std::uint64_t>& starts) {
  CpuContext context(threads);
  Subject subject = SmallMlp(0.1);
  subject.mlp.features = 784;
  subject.mlp.hidden = {1024};
  const auto model = subject.Make<T>(context);
  const Catalog catalog = Catalog::Create(model->tensors()).value();
  const Samples samples = subject.MakeSamples(2, 17);
  const auto wide = SomeWeights(*model);
  const std::vector<T> weights(wide.begin(), wide.end());
  for (const GradientMode mode : {GradientMode::kReplace, GradientMode::kAdd}) {
    std::vector<float> expected(weights.size(), 0.5F), gradients(weights.size(), 0.5F);
    model->Train(weights.data(), expected.data(), samples.View(), kKey, {.mode = mode}, {});
    client::FinishedBlocks blocks;
    blocks.Begin(catalog);
    std::vector<BlockIndex> finished;
    const auto finish = [&](BlockIndex block) {
      finished.push_back(block);
      const auto begin = static_cast<std::ptrdiff_t>(catalog.blocks()[block].flat_offset);
      const auto end = begin + static_cast<std::ptrdiff_t>(catalog.blocks()[block].count);
      CHECK(std::equal(expected.begin() + begin, expected.begin() + end, gradients.begin() + begin));
    };
    std::vector<std::uint64_t> declared;
    Hooks hooks;
    hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
      CHECK(blocks.Take(catalog, first, last, finish).ok());
    };
    hooks.gradient_ready_from = [&](TensorIndex tensor, std::uint64_t element) {
      CHECK(tensor == 0);
      declared.push_back(element);
      CHECK(gradients[element - 1] == 0.5F);  // not computed yet
      CHECK(blocks.TakeFrom(catalog, tensor, element, finish).ok());
    };
    model->Train(weights.data(), gradients.data(), samples.View(), kKey, {.mode = mode}, hooks);
    CHECK(declared == starts);
    CHECK(finished.size() == catalog.blocks().size());
    CHECK(std::is_sorted(finished.rbegin(), finished.rend()));
    CHECK(gradients == expected);
  }
}

TEST_CASE("a large first layer's gradient is final in parts from its end, with the bits of the whole", "[nn][hooks]") {
  CheckParts<float>(1, {864 * 784, 576 * 784, 288 * 784});
  CheckParts<float>(2, {576 * 784});
  CheckParts<float>(4, {});
  CheckParts<Bf16>(1, {864 * 784, 576 * 784, 288 * 784});
}

// Returns random weights with the distributions that the tensors declare, as a server makes them.
std::vector<float> InitialWeights(const std::vector<TensorSpec>& tensors) {
  std::vector<float> weights;
  std::uint64_t key = 0;
  for (const TensorSpec& tensor : tensors) {
    std::vector<float> values(tensor.ElementCount(), tensor.init.kind == InitKind::kOnes ? 1.0F : 0.0F);
    if (tensor.init.kind == InitKind::kNormal) kernels::FillNormal(key, 0, tensor.init.scale, values);
    if (tensor.init.kind == InitKind::kUniform) kernels::FillUniform(key, 0, tensor.init.scale, values);
    weights.insert(weights.end(), values.begin(), values.end());
    ++key;
  }
  return weights;
}

TEST_CASE("with initial weights the loss is about that of guessing, and gradient descent lowers it", "[nn]") {
  CpuContext context(1);
  for (const Subject& subject : {LargerMlp(0.05), LargerConvnet(0.05), LargerGpt(0.05)}) {
    const auto model = subject.Make<float>(context);
    auto weights = InitialWeights(model->tensors());
    std::vector<float> gradients(weights.size());
    const Samples samples = subject.MakeSamples(subject.IsGpt() ? 2 : 32, 18);
    const double classes = static_cast<double>(subject.Classes());
    const LossSums before = model->Evaluate(weights.data(), samples.View(), {});
    CHECK(before.loss / static_cast<double>(before.count) == Approx(std::log(classes)).epsilon(0.05));
    for (std::uint64_t step = 0; step < 40; ++step) {
      model->Train(weights.data(), gradients.data(), samples.View(), {.seed = 1, .step = step},
                   {.gradient_scale = 1.0 / static_cast<double>(before.count)}, {});
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5F * gradients[i];
    }
    const LossSums after = model->Evaluate(weights.data(), samples.View(), {});
    CAPTURE(subject.name);
    CHECK(after.loss < 0.8 * before.loss);
    CHECK(after.correct > before.correct);
  }
}

TEST_CASE("a convnet learns a few images by heart", "[nn][convnet]") {
  CpuContext context(2);
  const Subject subject = LargerConvnet(0);
  const auto model = subject.Make<float>(context);
  auto weights = InitialWeights(model->tensors());
  std::vector<float> gradients(weights.size());
  const Samples samples = subject.MakeSamples(8, 20);
  for (std::uint64_t step = 0; step < 150; ++step) {
    model->Train(weights.data(), gradients.data(), samples.View(), kKey, {.gradient_scale = 1.0 / 8}, {});
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.1F * gradients[i];
  }
  const LossSums learned = model->Evaluate(weights.data(), samples.View(), {});
  CHECK(learned.correct == 8);
  CHECK(learned.loss / 8 < 0.05);
}

TEST_CASE("a gpt sees only the past", "[nn][gpt]") {
  CpuContext context(1);
  const Subject subject = LargerGpt(0);
  const auto model = subject.Make<float>(context);
  const auto weights = SomeWeights(*model);
  const Samples samples = subject.MakeSamples(1, 19);
  // Computes the loss one position at a time, from the logits after each prefix of the text.
  double loss = 0;
  for (std::int64_t t = 0; t < subject.gpt.context; ++t) {
    const auto text = std::span(samples.tokens).first(static_cast<std::size_t>(t + 1));
    const auto logits = model->NextTokenLogits(weights.data(), text);
    REQUIRE(logits.ok());
    REQUIRE(logits->size() == 97);
    double sum = 0;
    for (const float x : *logits) sum += std::exp(static_cast<double>(x));
    loss += std::log(sum) -
            static_cast<double>((*logits)[static_cast<std::size_t>(samples.targets[static_cast<std::size_t>(t)])]);
  }
  CHECK(model->Evaluate(weights.data(), samples.View(), {}).loss == Approx(loss).epsilon(1e-5));
}

TEST_CASE("next-token logits refuse texts the model cannot read", "[nn][gpt]") {
  CpuContext context(1);
  const auto gpt = SmallGpt(0).Make<float>(context);
  const auto weights = SomeWeights(*gpt);
  CHECK(gpt->NextTokenLogits(weights.data(), {}).status().code() == Code::kInvalid);
  const std::vector<std::int32_t> unknown = {1, 7}, too_long(6, 1);
  CHECK(gpt->NextTokenLogits(weights.data(), unknown).status().code() == Code::kInvalid);
  CHECK(gpt->NextTokenLogits(weights.data(), too_long).status().code() == Code::kInvalid);
  const auto mlp = SmallMlp(0).Make<float>(context);
  CHECK(mlp->NextTokenLogits(weights.data(), {}).status().code() == Code::kUnsupported);
}

TEST_CASE("a wrong size is refused by its name", "[nn]") {
  CpuContext context(1);
  const auto gpt_says = [&](GptShape shape) { return CreateGpt<float>(context, shape).status(); };
  const GptShape good{.vocabulary = 7, .context = 5, .layers = 2, .heads = 3, .width = 6};
  CHECK(gpt_says(good).ok());
  const auto expect = [](const Status& status, const std::string& name) {
    CAPTURE(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find("model." + name) != std::string::npos);
  };
  GptShape bad = good;
  bad.vocabulary = 0;
  expect(gpt_says(bad), "vocabulary");
  bad = good;
  bad.context = -1;
  expect(gpt_says(bad), "context");
  bad = good;
  bad.layers = 1000000;
  expect(gpt_says(bad), "layers");
  bad = good;
  bad.heads = 4;
  expect(gpt_says(bad), "heads");
  bad = good;
  bad.dropout = 1;
  expect(gpt_says(bad), "dropout");
  expect(CreateMlp<float>(context, {.features = 0, .classes = 2}).status(), "features");
  expect(CreateMlp<float>(context, {.features = 3, .classes = 0}).status(), "classes");
  expect(CreateMlp<float>(context, {.features = 3, .classes = 2, .hidden = {4, 0}}).status(), "hidden");
  expect(CreateMlp<float>(context, {.features = 3, .classes = 2, .dropout = NAN}).status(), "dropout");
  CHECK(CreateMlp<float>(context, {.features = 3, .classes = 2}).ok());
  const auto convnet_says = [&](const ConvnetShape& shape) { return CreateConvnet<float>(context, shape).status(); };
  CHECK(convnet_says({.image = {4, 5, 1}, .classes = 2, .channels = {1, 1}}).ok());
  expect(convnet_says({.image = {4, 5, 1}, .classes = 2}), "channels");
  expect(convnet_says({.image = {4, 5, 1}, .classes = 2, .channels = {1, 0}}), "channels");
  expect(convnet_says({.image = {4, 5, 1}, .classes = 0, .channels = {1}}), "classes");
  expect(convnet_says({.image = {4, 5, 1}, .classes = 2, .channels = {1}, .hidden = {-1}}), "hidden");
  const Status small = convnet_says({.image = {5, 7, 1}, .classes = 2, .channels = {1, 1, 1}});
  CHECK(small.message().find("an image of 5 x 7 is too small for model.channels with 3") != std::string::npos);
  CHECK(convnet_says({.image = {0, 4, 1}, .classes = 2, .channels = {1}}).code() == Code::kInvalid);
  CHECK(convnet_says({.image = {1 << 20, 1 << 20, 1}, .classes = 2, .channels = {1}}).code() == Code::kInvalid);
}

TEST_CASE("the catalogs carry the names, shapes and groups that people expect", "[nn]") {
  CpuContext context(1);
  const auto gpt = SmallGpt(0).Make<float>(context);
  std::vector<std::string> names;
  for (const TensorSpec& tensor : gpt->tensors()) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"wte.weight",
                                          "wpe.weight",
                                          "h.0.ln_1.weight",
                                          "h.0.ln_1.bias",
                                          "h.0.attn.c_attn.weight",
                                          "h.0.attn.c_attn.bias",
                                          "h.0.attn.c_proj.weight",
                                          "h.0.attn.c_proj.bias",
                                          "h.0.ln_2.weight",
                                          "h.0.ln_2.bias",
                                          "h.0.mlp.c_fc.weight",
                                          "h.0.mlp.c_fc.bias",
                                          "h.0.mlp.c_proj.weight",
                                          "h.0.mlp.c_proj.bias",
                                          "h.1.ln_1.weight",
                                          "h.1.ln_1.bias",
                                          "h.1.attn.c_attn.weight",
                                          "h.1.attn.c_attn.bias",
                                          "h.1.attn.c_proj.weight",
                                          "h.1.attn.c_proj.bias",
                                          "h.1.ln_2.weight",
                                          "h.1.ln_2.bias",
                                          "h.1.mlp.c_fc.weight",
                                          "h.1.mlp.c_fc.bias",
                                          "h.1.mlp.c_proj.weight",
                                          "h.1.mlp.c_proj.bias",
                                          "ln_f.weight",
                                          "ln_f.bias"});
  CHECK(gpt->tensors()[4].shape == std::vector<std::int64_t>{18, 6});
  CHECK(gpt->tensors()[12].init == Init{InitKind::kNormal, 0.01F});  // 0.02 / sqrt(2 * 2 layers)
  for (const TensorSpec& tensor : gpt->tensors()) CHECK(tensor.decay == (tensor.shape.size() == 2));

  const auto mlp = SmallMlp(0).Make<float>(context);
  REQUIRE(mlp->tensors().size() == 6);
  CHECK(mlp->tensors()[0].name == "layers.0.weight");
  CHECK(mlp->tensors()[0].shape == std::vector<std::int64_t>{7, 5});
  CHECK(mlp->tensors()[5].name == "layers.2.bias");
  CHECK(mlp->tensors()[5].shape == std::vector<std::int64_t>{3});

  const auto convnet = SmallConvnet(0).Make<float>(context);
  REQUIRE(convnet->tensors().size() == 8);
  CHECK(convnet->tensors()[2].name == "conv.1.weight");
  CHECK(convnet->tensors()[2].shape == std::vector<std::int64_t>{2, 3, 3, 3});
  CHECK(convnet->tensors()[2].init == Init{InitKind::kUniform, static_cast<float>(1 / std::sqrt(27.0))});
  CHECK(convnet->tensors()[3].init == convnet->tensors()[2].init);
  CHECK(convnet->tensors()[4].name == "linear.0.weight");
  CHECK(convnet->tensors()[4].shape == std::vector<std::int64_t>{4, 2});  // 5 x 7 pixels are halved to 1 x 1
  for (const TensorSpec& tensor : convnet->tensors()) CHECK(tensor.decay == (tensor.shape.size() >= 2));
}

}  // namespace
}  // namespace capstan::nn
