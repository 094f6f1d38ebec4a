// The target reads the input as a safetensors file. Either the file is refused, or its tensors lie within it and their
// header can be written and read back unchanged.
#include "common/data/safetensors.h"

#include <algorithm>
#include <limits>

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

// Returns the tensors as capstan would write them; an empty list if one of them is none that capstan writes.
std::vector<TensorSpec> SpecsOf(const SafetensorsFile& file) {
  std::vector<TensorSpec> specs;
  for (const SafetensorsEntry& entry : file.tensors) {
    const bool is_ours = entry.dtype == "F32" && std::ranges::all_of(entry.shape, [](std::uint64_t extent) {
                           return extent <= std::uint64_t{std::numeric_limits<std::int32_t>::max()};
                         });
    if (!is_ours) return {};
    specs.push_back({entry.name, {entry.shape.begin(), entry.shape.end()}, {}});
  }
  return specs;
}

void CheckLayoutOf(const SafetensorsFile& file) {
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : file.tensors) {
    Require(entry.begin == next && entry.begin <= entry.end, "tensors lie one behind the other");
    next = entry.end;
  }
  Require(next == file.data.size(), "tensors fill the file");
}

void CheckWrittenAgain(const SafetensorsFile& file) {
  const std::vector<TensorSpec> specs = SpecsOf(file);
  if (specs.empty()) return;
  SafetensorsMetadata metadata = file.metadata;
  metadata.erase("format");  // the writer's own
  const std::string header = SafetensorsHeader(specs, metadata).substr(sizeof(std::uint64_t));
  Result<SafetensorsFile> again = ParseSafetensorsHeader(header, file.data.size());
  Require(again.ok(), "tensors that are accepted can be written and read");
  again->metadata.erase("format");
  Require(again->metadata == metadata, "metadata is read as it was written");
  Require(std::ranges::equal(again->tensors, file.tensors,
                             [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                               return a.name == b.name && a.shape == b.shape && a.begin == b.begin && a.end == b.end;
                             }),
          "tensors are read as they were written");
}

void RunSafetensors(std::string_view bytes) {
  const InputFile input(bytes);
  const Result<SafetensorsFile> file = ReadSafetensors(input.path());
  if (!file.ok()) return RequireReason(file.status(), input.path());
  Require(file->data.size() < bytes.size(), "no more is read than there is");
  CheckLayoutOf(*file);
  CheckWrittenAgain(*file);
}

const Registered safetensors_target({"safetensors", RunSafetensors});

}  // namespace
}  // namespace capstan::fuzz
