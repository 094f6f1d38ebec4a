#include "worker/machine/machine_sums.h"

#include <algorithm>
#include <cstring>

#include "common/base/hash.h"
#include "common/data/encoding.h"

namespace capstan::train {

namespace {

struct Words {
  std::uint64_t generation, step;
  std::uint32_t joins, parts;
  struct {
    std::uint32_t begin, end, samples;  // 32 bits suffice: a global batch has at most 2^24 samples
  } part[MachineHead::kPartsMax];
};
static_assert(sizeof(Words) == MachineHead::kFloats * sizeof(float));

}  // namespace

void MachineHead::Write(std::span<float> words) const {
  Words all{};
  all.generation = generation.value;
  all.step = step.value;
  all.joins = joins ? 1 : 0;
  all.parts = static_cast<std::uint32_t>(parts.size());
  CAPSTAN_CHECK(words.size() == kFloats && parts.size() <= kPartsMax);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all.part[i] = {parts[i].node.begin, parts[i].node.end, static_cast<std::uint32_t>(parts[i].samples)};
  }
  std::memcpy(words.data(), &all, sizeof all);
}

MachineHead MachineHead::Read(std::span<const float> words) {
  Words all{};
  CAPSTAN_CHECK(words.size() == kFloats);
  std::memcpy(&all, words.data(), sizeof all);
  MachineHead head{{all.generation}, {all.step}, all.joins == 1, {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(all.parts, kPartsMax); ++i) {
    head.parts.push_back({{all.part[i].begin, all.part[i].end}, all.part[i].samples});
  }
  return head;
}

MachinePlan PlanMachineSums(const std::vector<MachineHead>& heads, SlotIndex slot_count) {
  const ReductionTree tree(slot_count);
  MachinePlan plan;
  for (std::size_t rank = 0; rank < heads.size(); ++rank) {
    const MachineHead& head = heads[rank];
    if (!head.joins || head.generation != heads[0].generation || head.step != heads[0].step) return {};
    plan.parts_each = std::max(plan.parts_each, head.parts.size());
    for (std::size_t i = 0; i < head.parts.size(); ++i) {
      if (!tree.Has(head.parts[i].node)) return {};
      plan.parts.push_back({static_cast<int>(rank), i, head.parts[i].node, head.parts[i].samples});
    }
  }
  std::sort(plan.parts.begin(), plan.parts.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  std::vector<SlotIndex> slots;
  for (const MachinePlan::Part& part : plan.parts) {
    if (!slots.empty() && part.node.begin <= slots.back()) return {};  // two workers compute the same slot
    for (SlotIndex slot = part.node.begin; slot < part.node.end; ++slot) slots.push_back(slot);
  }
  for (Node node : tree.Cover(slots)) {
    std::uint64_t samples = 0;
    for (const MachinePlan::Part& part : plan.parts) samples += node.Contains(part.node) ? part.samples : 0;
    plan.sums.push_back({node, samples});
  }
  return plan.sums.size() < plan.parts.size() ? plan : MachinePlan{};
}

std::size_t PartFloats(const MachinePlan& plan, std::size_t number, const Bucket& bucket, Encoding encoding) {
  std::size_t bytes = 0;
  for (const MachinePlan::Part& part : plan.parts) {
    if (part.number == number) bytes = std::max(bytes, BytesPerNumber(PartEncoding(part.node, bucket, encoding)));
  }
  return (bucket.count * bytes + sizeof(float) - 1) / sizeof(float);
}

void PackPart(const Catalog& catalog, const Bucket& bucket, Node node, Encoding encoding, const std::byte* flat,
              std::byte* packed) {
  const std::size_t width = BytesPerNumber(PartEncoding(node, bucket, encoding));
  for (BlockIndex index = bucket.first; index <= bucket.last; ++index) {
    const Block& block = catalog.blocks()[index];
    std::memcpy(packed + (block.flat_offset - bucket.flat_offset) * width, flat + block.flat_offset * sizeof(float),
                block.count * width);
  }
}

void AddBlock(const MachinePlan& plan, std::span<const StagedInput> parts, const Block& block,
              std::span<float* const> sums, HostAddition* addition) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float* const out = sums[i] + block.flat_offset;
    const StagedInput sum = AddUp(plan.sums[i].node, parts, block.count, out, *addition);
    const bool is_alone = sum.values != reinterpret_cast<const std::byte*>(out);
    if (is_alone && sum.samples > 0) std::memcpy(out, sum.values, block.count * BytesPerNumber(sum.encoding));
  }
}

session::Gradient PushOfSum(const client::MachineRound& round, const MachinePlan::Sum& sum, const BufferRef& flat,
                            const Block& block, BlockIndex index, Encoding encoding) {
  session::Gradient push{round.round, sum.node, index, sum.samples, round.loss_scale, 0, {}};
  if (sum.samples == 0) return push;
  const Encoding its = sum.node.IsLeaf() ? block.EncodingIn(encoding) : Encoding::kFp32;
  const auto* const bytes = reinterpret_cast<const std::byte*>(flat.As<float>() + block.flat_offset);
  push.payload = {flat, bytes, block.count * BytesPerNumber(its)};
  push.payload_hash = Hash64(push.payload.bytes());
  return push;
}

}  // namespace capstan::train
