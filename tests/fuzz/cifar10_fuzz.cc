// The target reads the input as each of the six files of CIFAR-10. Either the message of the refusal names the folder,
// or images can be drawn.
#include "worker/data/cifar10.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/config/job/data_section.h"
#include "tests/fuzz/target.h"
#include "tests/temp_folder.h"

namespace capstan::fuzz {
namespace {

using train::Split;

constexpr std::size_t kRecordBytes = 1 + 32 * 32 * 3;

// A folder in which CIFAR-10's six file names are hard links to one file.
class CifarFolder {
 public:
  CifarFolder() {
    folder_.Write("test_batch.bin", "");
    for (const char* number : {"1", "2", "3", "4", "5"}) {
      const std::string name = std::string("data_batch_") + number + ".bin";
      std::filesystem::create_hard_link(folder_.path("test_batch.bin"), folder_.path(name));
    }
  }
  const std::string& Fill(std::string_view bytes) const {
    folder_.Write("test_batch.bin", bytes);
    return folder_.path();
  }

 private:
  const testing::TempFolder folder_;
};

void CheckSamples(const train::Dataset& dataset, Split split) {
  std::vector<std::uint64_t> samples(std::min<std::uint64_t>(dataset.count(split), 8));
  std::iota(samples.begin(), samples.end(), dataset.count(split) - samples.size());
  train::BatchBuffer batch;
  Require(dataset.Fill(samples, split, {.seed = 1, .step = 2, .slot = 3}, &batch).ok(), "images can be drawn");
  Require(batch.inputs.size() == samples.size() * (kRecordBytes - 1), "an image is whole");
  Require(std::ranges::all_of(batch.inputs, [](float input) { return std::abs(input) < 4.0F; }), "pixels are scaled");
  Require(std::ranges::all_of(batch.targets, [](std::int32_t target) { return target >= 0 && target < 10; }),
          "a class is one of ten");
}

void RunCifar10(std::string_view bytes) {
  static const CifarFolder folder;
  const std::string& path = folder.Fill(bytes);
  const auto dataset = train::Cifar10Dataset::Open(path, {});
  if (!dataset.ok()) return RequireReason(dataset.status(), path);
  const bool is_packed = bytes.starts_with("\x1f\x8b");
  Require(is_packed || (*dataset)->count(Split::kValidation) == bytes.size() / kRecordBytes, "each record is an image");
  Require((*dataset)->count(Split::kTraining) == 5 * (*dataset)->count(Split::kValidation), "five files train");
  CheckSamples(**dataset, Split::kTraining);
  CheckSamples(**dataset, Split::kValidation);
}

const Registered cifar10_target({"cifar10", RunCifar10});

}  // namespace
}  // namespace capstan::fuzz
