#include "cli/trainer/device_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>

#include "worker/device/load_device.h"

namespace capstan::cli {
namespace {

std::string DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::smatch version;
  if (!std::getline(file, line)) return "";
  return std::regex_search(line, version, std::regex(R"(\b\d+\.\d+(\.\d+)?\b)")) ? version.str() : line;
}

unsigned CountDevices() {
  std::error_code error;
  unsigned count = 0;
  for (std::filesystem::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error)) {
    ++count;
  }
  return count;
}

// A model with one layer: making it allocates device memory and loads the CUDA libraries, as a worker does.
nn::ModelShape SmallShape() { return nn::MlpShape{.features = 8, .classes = 2, .hidden = {8}}; }

}  // namespace

DeviceFacts ReadDevice(const std::string& plugins) {
  DeviceFacts facts;
  facts.driver = DriverVersion();
  facts.count = CountDevices();
  const Result<const train::DevicePlugin*> plugin = train::LoadDevicePlugin(plugins, DeviceKind::kCuda);
  if (!plugin.ok()) {
    facts.plugin_problem = plugin.status().message();
    return facts;
  }
  if (facts.driver.empty()) return facts;
  train::DeviceOptions options;
  options.libraries = kernels::SearchOf(std::getenv);
  const auto model = (*plugin)->create(options, Precision::kFp32, SmallShape());
  if (!model.ok()) facts.use_problem = model.status().message();
  return facts;
}

}  // namespace capstan::cli
