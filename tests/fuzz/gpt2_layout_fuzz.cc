// The target reads the input as a safetensors file with weights of GPT-2. Adopted tensors must lie within the file, and
// a transposed matrix must keep its values.
#include "cli/snapshot/gpt2_layout.h"

#include <cstring>
#include <map>

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

// A catalog with some of GPT-2's tensors. AdoptGpt2 takes only the number of positions from it, 3 in wpe.weight.
const Catalog& SmallGpt() {
  static const Catalog catalog =
      Catalog::Create({{"wte.weight", {5, 2}, {}}, {"wpe.weight", {3, 2}, {}}, {"h.0.attn.c_attn.weight", {6, 2}, {}}})
          .value();
  return catalog;
}

float ValueAt(const SafetensorsFile& file, const SafetensorsEntry& entry, std::uint64_t index) {
  float value = 0;
  std::memcpy(&value, file.data.data() + entry.begin + index * sizeof value, sizeof value);
  return value;
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void CheckAdopted(const SafetensorsFile& before, const SafetensorsFile& after) {
  std::map<std::uint64_t, const SafetensorsEntry*> by_place;
  for (const SafetensorsEntry& entry : before.tensors) {
    if (entry.begin != entry.end) by_place[entry.begin] = &entry;
  }
  for (const SafetensorsEntry& entry : after.tensors) {
    Require(entry.begin <= entry.end && entry.end <= after.data.size(), "a tensor lies in the file");
    if (entry.begin == entry.end) continue;
    const auto found = by_place.find(entry.begin);
    Require(found != by_place.end() && entry.end <= found->second->end, "a tensor lies where it lay");
    const std::vector<std::uint64_t>& from = found->second->shape;
    const bool is_turned = entry.dtype == "F32" && from.size() == 2 && entry.shape[0] == from[1] &&
                           entry.shape[1] == from[0] && from[0] != from[1];
    if (!is_turned) continue;
    const std::uint64_t row = from[0] - 1, column = from[1] / 2;
    Require(SameBits(ValueAt(after, entry, column * from[0] + row),
                     ValueAt(before, *found->second, row * from[1] + column)),
            "a transposed matrix has its values");
  }
}

void RunGpt2Layout(std::string_view bytes) {
  const InputFile input(bytes);
  Result<SafetensorsFile> file = ReadSafetensors(input.path());
  if (!file.ok()) return;
  (void)cli::IsGpt2Layout(*file);
  const SafetensorsFile before = *file;
  const Status status = cli::AdoptGpt2(SmallGpt(), "weights", &*file);
  if (!status.ok()) return RequireReason(status, "weights");
  CheckAdopted(before, *file);
}

const Registered gpt2_layout_target({"gpt2_layout", RunGpt2Layout});

}  // namespace
}  // namespace capstan::fuzz
