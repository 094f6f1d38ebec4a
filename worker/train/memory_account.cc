#include "worker/train/memory_account.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <limits>

#include "common/base/buffer.h"
#include "common/config/job/allreduce_section.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/encoding.h"
#include "common/data/reduction_tree.h"
#include "kernels/matmul.h"
#include "update/optimizer.h"
#include "worker/client/slot_sums.h"
#include "worker/collective/mesh.h"
#include "worker/data/sampler.h"
#include "worker/device/model_factory.h"
#include "worker/machine/machine_sums.h"
#include "worker/session/pull_line.h"
#include "worker/train/slot_computer.h"

namespace capstan::train {

namespace {

constexpr double kMiB = 1 << 20;

// Returns how many whole gradients a worker with these slots holds at once. To count them it runs SlotSums, as the
// client does, without data. It runs two rounds, because gradients are still in flight when the next round begins.
std::uint64_t GradientBuffers(const SampleRange& slots, const ReductionTree& tree) {
  BufferPool pool(64);  // one of its buffers stands for a gradient
  BufferRef last;
  std::uint64_t most = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<SlotIndex> mine;
    for (std::uint64_t slot = slots.first; slot < slots.last; ++slot) mine.push_back(static_cast<SlotIndex>(slot));
    client::SlotSums sums(mine, tree);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      BufferRef next = pool.Take();
      most = std::max(most, pool.in_use_bytes() / pool.buffer_bytes());
      last = std::move(next);
      sums.BeginSlot(1, last);
    }
  }
  return most;
}

// Returns the most over all workers. In modes without global steps a worker computes one slot at a time.
std::uint64_t GradientBuffersMax(const JobConfig& config) {
  const ReductionTree tree(config.slots(), AggregationOf(config));
  if (!HasGlobalSteps(config.mode())) return GradientBuffers({0, 1}, tree);
  const std::uint32_t workers = std::clamp(config.cluster.workers, 1U, config.slots());
  std::uint64_t most = 0;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    most = std::max(most, GradientBuffers(SlotShare(config.slots(), workers, worker), tree));
  }
  return most;
}

// Returns the number of tree nodes that cover these slots.
std::uint64_t CountCover(Node node, const SampleRange& slots) {
  if (slots.first <= node.begin && node.end <= slots.last) return 1;
  if (node.end <= slots.first || slots.last <= node.begin) return 0;
  const SlotIndex split = SplitPoint(node);
  return CountCover({node.begin, split}, slots) + CountCover({split, node.end}, slots);
}

// Counts of the buffers with which the workers of a machine add up their gradients. Which workers share a machine is
// not known here, so each count is the most over all runs of neighbouring workers.
struct ReductionCounts {
  std::uint64_t parts = 0;   // most parts that one worker brings
  std::uint64_t sums = 0;    // most sums that are pushed for the group
  std::uint64_t spare = 0;   // buckets for intermediate sums
  std::uint64_t bucket = 0;  // bytes of a bucket in fp32
};

ReductionCounts CountReduction(const JobConfig& config, std::uint64_t wide_bytes) {
  ReductionCounts counts;
  if (!ReducesLocally(config)) return counts;
  const SlotIndex slots = config.slots();
  const std::uint32_t workers = std::clamp(config.cluster.workers, 1U, slots);
  constexpr std::uint32_t kWorkersMax = collective::kRanksMax;
  for (std::uint32_t first = 0; first < workers; ++first) {
    const SampleRange share = SlotShare(slots, workers, first);
    counts.parts = std::max(counts.parts, CountCover({0, slots}, share));
    for (std::uint32_t last = first + 1; last < std::min(workers, first + kWorkersMax); ++last) {
      const SampleRange all{share.first, SlotShare(slots, workers, last).last};
      counts.sums = std::max(counts.sums, CountCover({0, slots}, all));
    }
  }
  // A worker with more than kPartsMax parts does not take part: it pushes by itself.
  counts.parts = std::min<std::uint64_t>(counts.parts, MachineHead::kPartsMax);
  counts.spare = static_cast<std::uint64_t>(std::bit_width(slots - 1));
  const auto bucket = static_cast<std::uint64_t>(config.allreduce.bucket_mib * kMiB);
  counts.bucket = std::min(wide_bytes, std::max<std::uint64_t>(bucket, kBlockElements * sizeof(float)));
  return counts;
}

struct WeightCount {
  std::uint64_t all = 0, statistics = 0;
};

WeightCount CountWeights(const std::vector<TensorSpec>& tensors) {
  WeightCount count;
  for (const TensorSpec& tensor : tensors) {
    count.all += tensor.ElementCount();
    if (tensor.kind == TensorKind::kStatistic) count.statistics += tensor.ElementCount();
  }
  return count;
}

// The parts of an account that depend on whether shards or workers update the weights.
struct HeldArrays {
  std::uint64_t weights = 0, never_written = 0;
  std::uint64_t gradient_buffers = 0;
  std::uint64_t messages = 0;
  std::uint64_t device_gradients = 0;  // besides the model's own
};

// For modes in which the shards update the weights: the worker pulls weights and pushes gradients.
HeldArrays OfClient(const JobConfig& config, const WeightCount& count) {
  const Encoding encoding = EncodingOf(config);
  const std::uint64_t wide_bytes = count.all * sizeof(float);
  HeldArrays held{.weights = wide_bytes, .gradient_buffers = GradientBuffersMax(config)};
  if (encoding != Encoding::kFp32) {
    held.weights = count.all * BytesPerNumber(encoding) + count.statistics * sizeof(float);
    held.never_written = wide_bytes - count.statistics * sizeof(float);
  }
  const std::uint64_t window = std::uint64_t{session::PullLine::kWindow} * config.shard_count() * kBlockElements;
  held.messages = std::min(count.all, window) * BytesPerNumber(encoding);
  return held;
}

// For modes in which the worker updates its replica: two versions of weights and states in fp32, and of the 16-bit
// weights. The gradients of all slots are added to one sum.
HeldArrays OfReplica(const JobConfig& config, const WeightCount& count) {
  const Encoding encoding = EncodingOf(config), wire = config.allreduce.wire;
  const std::uint64_t wide_bytes = count.all * sizeof(float);
  const auto arrays = 1 + static_cast<std::uint64_t>(KeptStates(MakeOptimizerRule(config.optimizer)));
  const std::uint64_t narrow = encoding == Encoding::kFp32 ? 0 : count.all * BytesPerNumber(encoding);
  HeldArrays held{.weights = 2 * (arrays * wide_bytes + narrow),
                  .gradient_buffers = config.slots() > config.cluster.workers ? 2U : 1U};
  if (MayUseDevices(CollectiveOf(config))) {  // the sum, and its copy in the wire's encoding
    held.device_gradients = wide_bytes + (wire == Encoding::kFp32 ? 0 : count.all * BytesPerNumber(wire));
  }
  return held;
}

std::uint64_t SampleBytes(const SampleSpec& spec) {
  return spec.form == SampleForm::kTokens ? std::uint64_t{spec.context} * 2 * sizeof(std::int32_t)
                                          : spec.features * sizeof(float) + sizeof(std::int32_t);
}

// Returns an upper bound for the scratch memory of matrix products and row kernels. Convolutions are counted
// separately.
std::uint64_t RowScratchBytes(int threads) {
  constexpr std::int64_t kRows = 1 << 18, kShared = 1 << 20;
  return static_cast<std::uint64_t>((kernels::kMatmulScratch<Bf16> + kRows) * threads + kShared) * sizeof(float);
}

// Returns which keys of the job file lower the need, and at the end (`last`) how to raise the limit. `fixed`: bytes
// that do not depend on the micro-batch.
std::string Advice(const MemoryAccount& account, std::uint64_t fixed, std::uint64_t left, const std::string& last) {
  std::string advice;
  const auto add = [&](const std::string& text) { advice += (advice.empty() ? "; " : ", or ") + text; };
  if (account.micro_batch > 1) {
    add("lower [job] global_batch, raise [job] slots or [worker] accumulate, which is " +
        std::to_string(account.accumulate));
  }
  if (account.can_recompute && !account.recomputes) {
    add("set [worker] recompute = true, which makes the activations " + MemoryText(account.activations_otherwise));
  }
  if (fixed > left) {
    advice = "; its weights and gradients alone are too much: use a smaller [model]" +
             std::string(account.gradient_buffers > 2 ? ", more [cluster] workers" : "");
  }
  return advice + (advice.empty() ? "; " : ", or ") + last;
}

std::uint64_t FixedBytes(const MemoryAccount& account) {
  return account.resident() - (account.device ? 0 : account.activations);
}

Status Refusal(const std::string& what, const MemoryAccount& account, const MemoryLimit& limit) {
  const std::string free =
      limit.name.empty() ? "" : ", and " + limit.name + " has " + MemoryText(limit.left_bytes) + " free";
  return Invalid(what + account.ToString() + free +
                 Advice(account, FixedBytes(account), limit.left_bytes, "start it where there is more memory"));
}

Status Refusal(const std::string& what, const MemoryAccount& account, const AddressSpace& space) {
  constexpr std::uint64_t kAnything = std::numeric_limits<std::uint64_t>::max();  // never below FixedBytes
  return Invalid(what + account.ToString() + ", and this process's address space (ulimit -v) is limited to " +
                 MemoryText(space.limit_bytes) + ": it has " + MemoryText(space.resident_bytes) + " in use, and " +
                 MemoryText(space.reserved_bytes) + " with what its threads reserve" +
                 Advice(account, FixedBytes(account), kAnything, "raise ulimit -v"));
}

}  // namespace

std::string MemoryAccount::ToString() const {
  const std::string held = MemoryText(resident()) + " on this worker (weights " + MemoryText(weights) + ", " +
                           std::to_string(gradient_buffers) + " gradients " + MemoryText(gradients);
  std::string worked_with = ", activations of a micro-batch of " + std::to_string(micro_batch) +
                            (micro_batch == 1 ? " sample " : " samples ") + MemoryText(activations);
  if (can_recompute) {
    worked_with += recomputes ? " instead of " + MemoryText(activations_otherwise) + " without recompute"
                              : ", with recompute " + MemoryText(activations_otherwise);
  }
  const std::string rest = ", samples, messages and scratch ";
  if (!device) return held + worked_with + rest + MemoryText(samples + messages + scratch) + ")";
  return held + rest + MemoryText(2 * samples + messages + scratch + device->pinned) + ") and " +
         MemoryText(on_device()) + " on " + device->device + " (weights " + MemoryText(device->weights) +
         ", gradients " + MemoryText(device->gradients) + worked_with + ", samples and workspace " +
         MemoryText(samples + device->work) + ")";
}

Result<MemoryAccount> CountMemory(kernels::CpuContext& context, const JobConfig& config, const Dataset& data,
                                  JobModel& model, const ModelMaker& make) {
  MemoryAccount account;
  const WeightCount count = CountWeights(model.tensors());
  const HeldArrays held = WorkersUpdate(config.mode()) ? OfReplica(config, count) : OfClient(config, count);
  const std::uint64_t wide_bytes = count.all * sizeof(float);
  const ReductionCounts machine = CountReduction(config, wide_bytes);
  account.weights = held.weights;
  account.never_written = held.never_written;
  account.gradient_buffers = held.gradient_buffers + machine.sums;
  account.gradients = account.gradient_buffers * wide_bytes;
  // A bucket of each part of each worker, and as much again as one worker's for the buffer from which parts are sent.
  const std::uint64_t gathered = machine.parts * (std::uint64_t{config.cluster.workers} + 1) * machine.bucket;
  account.messages = held.messages + gathered + machine.spare * machine.bucket;

  account.accumulate = config.worker.accumulate;
  account.micro_batch = MicroBatchMax(config, data);
  const auto samples = static_cast<std::int64_t>(account.micro_batch);
  account.samples = account.micro_batch * SampleBytes(data.spec());
  account.activations = model.MeasureActivations(samples);
  account.device = model.CountDeviceMemory();
  if (account.device) account.device->gradients += held.device_gradients;
  if (account.device && config.allreduce.local_reduce == LocalReduce::kNccl) {  // two buckets are in flight
    const std::uint64_t widened = 1;
    account.device->work += 2 * (gathered + machine.sums * machine.bucket) + (machine.spare + widened) * machine.bucket;
    account.device->pinned += 2 * (machine.parts + machine.sums) * machine.bucket;
  }
  account.scratch = std::max<std::uint64_t>(RowScratchBytes(context.threads()), model.MeasureConvolutions(samples));
  account.can_recompute = config.model.can_recompute();
  account.recomputes = config.worker.recompute;
  if (!account.can_recompute) return account;
  EditableJobConfig otherwise = config;
  otherwise.worker.recompute = !account.recomputes;
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, ShapeOfModel(otherwise, data.spec()));
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobModel> other, make(shape));
  account.activations_otherwise = other->MeasureActivations(samples);
  return account;
}

Status CheckMemory(const MemoryAccount& account, const FreeMemory& free) {
  if (account.device && account.on_device() > account.device->free) {
    return Invalid("the model needs " + account.ToString() + ", and the device has " +
                   MemoryText(account.device->free) + " free" +
                   Advice(account, account.on_device() - account.activations, account.device->free,
                          "start it on a device with more memory"));
  }
  if (account.resident() > free.resident.left_bytes) return Refusal("the model needs ", account, free.resident);
  if (account.resident() + account.never_written > free.address_space.LeftBytes()) {
    return Refusal("the model needs ", account, free.address_space);
  }
  return {};
}

Status OutOfMemory(const MemoryAccount& account, const FreeMemory& free) {
  const std::string what = "no more memory was given to a model that needs ";
  const AddressSpace& space = free.address_space;
  const std::uint64_t unreserved = space.limit_bytes - std::min(space.limit_bytes, space.reserved_bytes);
  return unreserved < account.resident() + account.never_written ? Refusal(what, account, space)
                                                                 : Refusal(what, account, free.resident);
}

}  // namespace capstan::train
