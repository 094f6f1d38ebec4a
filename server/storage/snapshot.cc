#include "server/storage/snapshot.h"

#include <algorithm>
#include <cstring>

#include "common/base/hash.h"

namespace capstan::server {

namespace {

std::uint64_t Bits(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void AddNumbers(const std::vector<SequenceNumber>& numbers, Hasher* hasher) {
  hasher->Add(std::uint64_t{numbers.size()});
  for (SequenceNumber number : numbers) hasher->Add(number.value);
}

void AddReport(const StepReport& entry, Hasher* hasher) {
  const SlotReport& report = entry.report;
  for (std::uint64_t number :
       {entry.sequence.value, std::uint64_t{report.slot}, report.samples, Bits(report.loss_sum), report.predictions,
        Bits(report.validation_loss_sum), report.validation_predictions, report.validation_correct}) {
    hasher->Add(number);
  }
  if (report.metrics.empty()) return;  // the digest of a report without metrics is that of older formats
  hasher->Add(std::uint64_t{report.metrics.size()});
  for (const Metric& metric : report.metrics) {
    hasher->Add(std::uint64_t{metric.name.size()});
    hasher->Add(metric.name);
    hasher->Add(Bits(metric.sum));
    hasher->Add(Bits(metric.weight));
  }
}

}  // namespace

std::uint64_t SnapshotHeader::Digest() const {
  Hasher hasher;
  for (std::uint64_t number :
       {job.high, job.low, id.generation.value, id.version.value, std::uint64_t{part}, std::uint64_t{part_count},
        catalog_hash, std::uint64_t{array_count}, parameters.updates, Bits(parameters.learning_rate),
        Bits(parameters.loss_scale), std::uint64_t{parameters.good_steps}, std::uint64_t{slot_count}}) {
    hasher.Add(number);
  }
  AddNumbers(ended, &hasher);
  hasher.Add(std::uint64_t{reports.size()});
  for (const StepReport& entry : reports) AddReport(entry, &hasher);
  if (log_begin != 0) hasher.Add(log_begin);
  if (!parameters.program_state.empty()) {  // without a state, the digest is that of older formats
    hasher.Add(std::uint64_t{parameters.program_state.size()});
    hasher.Add(parameters.program_state);
  }
  if (parameters.gradient_norm != 0) hasher.Add(Bits(parameters.gradient_norm));  // older formats have none
  hasher.Add(std::uint64_t{blocks.size()});
  for (const BlockEntry& block : blocks) {
    hasher.Add(std::uint64_t{block.block});
    hasher.Add(std::uint64_t{block.count});
    hasher.Add(block.updates);
    AddNumbers(block.last, &hasher);
    for (std::uint64_t hash : block.hashes) hasher.Add(hash);
  }
  return hasher.Digest();
}

const SnapshotHeader::BlockEntry* SnapshotHeader::Find(BlockIndex block) const {
  const auto found = std::lower_bound(blocks.begin(), blocks.end(), block,
                                      [](const BlockEntry& entry, BlockIndex wanted) { return entry.block < wanted; });
  return found != blocks.end() && found->block == block ? &*found : nullptr;
}

}  // namespace capstan::server
