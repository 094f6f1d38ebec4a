// What only an emulated device can be made to do: have too little memory.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "worker/train/device/create_device_model.h"

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

}  // namespace
}  // namespace capstan::train
