// States that only an emulated device can have: too little memory, and cuDNN present or not.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/config/job_config.h"
#include "kernels/cuda/convolutions.h"
#include "tests/catch.h"
#include "worker/device/create_device_model.h"
#include "worker/device/model_factory.h"
#include "worker/train/memory_account.h"

namespace capstan::train {
namespace {

TEST_CASE("a device with too little memory is said so", "[device]") {
  const nn::MlpShape shape{.features = 33, .classes = 7, .hidden = {65, 31}};
  setenv("CAPSTAN_EMULATED_MEMORY", "10000", 1);
  const auto model = CreateDeviceModel({}, Precision::kFp32, shape).value();
  std::size_t count = 0;
  for (const TensorSpec& tensor : model->tensors()) count += tensor.ElementCount();
  const DeviceMemory memory = model->CountDeviceMemory().value();
  CHECK(memory.device.find("emulated") != std::string::npos);
  CHECK(memory.free == 10000);
  CHECK(memory.weights == sizeof(float) * count);
  CHECK(memory.gradients == memory.weights);

  const std::vector<float> weights(count), inputs(33);
  const std::vector<std::int32_t> targets(1);
  std::vector<float> gradients(count);
  const nn::Batch batch{1, inputs, {}, targets};
  const Status full = model->Train({.wide = weights.data()}, gradients.data(), batch, {}, {}, {}).status();
  unsetenv("CAPSTAN_EMULATED_MEMORY");
  CHECK(full.code() == Code::kRefused);
  CHECK_THAT(full.message(), Catch::Contains("out of memory"));
}

// Returns the device memory that a job in mode allreduce needs for gradients, by the job's memory account.
std::uint64_t GradientsOnDevice(const std::vector<std::string>& settings) {
  const JobConfig config =
      ParseJobConfig(
          "[job]\nmode = \"allreduce\"\nsteps = 5\nglobal_batch = 4\nslots = 1\n[model]\nkind = \"mlp\"\n[data]\n"
          "kind = \"synthetic\"\n[worker]\ndevice = \"emulated\"\n",
          "test", settings)
          .value();
  const auto data = OpenDataset(config, ".").value();
  const ModelMaker make = [](const nn::ModelShape& shape) { return CreateDeviceModel({}, Precision::kFp32, shape); };
  const auto model = make(ShapeOfModel(config, data->spec()).value()).value();
  kernels::CpuContext cpu(1);
  return CountMemory(cpu, config, *data, *model, make).value().device->gradients;
}

TEST_CASE("the sum that a device keeps of gradients is counted, and as it travels", "[device]") {
  const std::uint64_t alone = GradientsOnDevice({"allreduce.collective=gloo"});
  CHECK(alone > 0);
  CHECK(GradientsOnDevice({}) == 2 * alone);
  CHECK(GradientsOnDevice({"allreduce.collective=nccl", "allreduce.wire=bf16"}) == 2 * alone + alone / 2);
  CHECK(GradientsOnDevice({"job.mode=sync"}) == alone);
}

// A resnet of this width that trains a step, with or without cuDNN.
struct Resnet {
  Resnet(int width, const char* cudnn) {
    setenv("CAPSTAN_EMULATED_CUDNN", cudnn, 1);
    model = CreateDeviceModel(
                {}, Precision::kFp32,
                nn::ResnetShape{
                    .image = {.height = 9, .width = 8, .channels = 3}, .classes = 5, .depth = 18, .width = width})
                .value();
    class_of = model->NumericClass();
    fingerprint = model->NumericFingerprint().value();
    unsetenv("CAPSTAN_EMULATED_CUDNN");
    notice = model->TakeNotice();
    std::size_t count = 0;
    for (const TensorSpec& tensor : model->tensors()) count += tensor.ElementCount();
    std::vector<float> weights(count, 0.1F);
    gradients.resize(count);
    const std::vector<float> inputs(9 * 8 * 3, 0.5F);
    const std::vector<std::int32_t> targets(1, 2);
    REQUIRE(model->Train({weights.data(), nullptr, 0}, gradients.data(), {1, inputs, {}, targets}, {}, {}, {}).ok());
    refusals = model->TakeNotice();
  }
  std::unique_ptr<JobModel> model;
  std::string class_of, notice, refusals;
  std::uint64_t fingerprint = 0;
  std::vector<float> gradients;
};

TEST_CASE("a model with convolutions has cuDNN compute them where it is there, says so and counts its memory",
          "[device]") {
  const Resnet with(4, "1"), without(4, "0");
  CHECK(with.notice == "convolutions: cudnn emulated");
  CHECK_THAT(without.notice, Catch::StartsWith("convolutions: im2col, the emulated device has no cuDNN"));
  CHECK(with.class_of == without.class_of + ", cudnn emulated");
  CHECK(with.fingerprint != without.fingerprint);
  CHECK(with.model->CountDeviceMemory()->work ==
        without.model->CountDeviceMemory()->work + kernels::Convolutions::kWorkspaceBytes);
  CHECK(with.refusals + without.refusals == "");
}

TEST_CASE("a shape that cuDNN refuses is left to im2col and said once", "[device]") {
  const auto [width, reason] =
      GENERATE(std::pair(5, "no deterministic product"), std::pair(7, "CUDNN_STATUS_NOT_SUPPORTED"));
  const Resnet with(width, "1");
  const std::string filters = "1 x 9 x 8 x 3 by " + std::to_string(width) + " filters of 3 x 3, stride 1: " + reason;
  CHECK_THAT(with.refusals, Catch::StartsWith("convolutions left to im2col: " + filters));
  CHECK_THAT(with.refusals, Catch::Contains("dw of " + filters) && !Catch::Contains("filters of 3 x 3, stride 2"));
}

TEST_CASE("to a model without convolutions cuDNN is nothing", "[device]") {
  const nn::ModelShape mlp = nn::MlpShape{.features = 33, .classes = 7, .hidden = {65}};
  const auto without = CreateDeviceModel({}, Precision::kFp32, mlp).value();
  const std::uint64_t fingerprint = without->NumericFingerprint().value();
  setenv("CAPSTAN_EMULATED_CUDNN", "1", 1);
  const auto with = CreateDeviceModel({}, Precision::kFp32, mlp).value();
  CHECK(with->TakeNotice() + without->TakeNotice() == "");
  CHECK(with->NumericClass() == without->NumericClass());
  CHECK(with->NumericFingerprint().value() == fingerprint);
  unsetenv("CAPSTAN_EMULATED_CUDNN");
}

}  // namespace
}  // namespace capstan::train
