#include "tests/sim/options.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "common/base/random.h"
#include "common/config/job_config.h"

namespace capstan::sim {

namespace {

constexpr std::size_t kOldLimit = 8;

}  // namespace

ClusterOptions RandomOptions(std::uint64_t seed, int edition) {
  RandomStream random(seed, 2);
  const auto pick = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random.Below(bound)); };
  // Each kind of fault is absent from many runs, because one kind can hide the effects of another.
  const auto rate = [&](std::uint64_t one_in, double most) {
    const bool present = random.Below(one_in) == 0;
    return present ? most * random.Unit() : 0.0;
  };
  ClusterOptions options;
  options.seed = seed;
  options.shards = 1 + pick(3);
  options.workers = 1 + pick(4);
  options.slots = 1 + pick(6);
  options.steps = 3 + pick(6);
  options.block_elements = 2 + pick(3) * 3;
  options.window_blocks = pick(3) == 0 ? 1 : 1 + pick(6);
  options.clip_norm = pick(2) == 0 ? 0.0 : 1.5;
  options.empty_slots = pick(3) == 0;
  options.snapshot_every_steps = pick(4);
  options.snapshot_every_seconds = rate(3, 3.0);
  options.loss = rate(2, 0.05);
  options.duplication = rate(2, 0.10);
  options.late = rate(2, 0.04);
  options.worker_crashes = rate(2, 6.0);
  options.coordinator_crashes = rate(2, 2.0);
  options.shard_crashes = rate(2, 1.0);
  options.crashes_of_all = rate(4, 0.5);
  options.joins_and_leaves = rate(2, 4.0);
  options.worker_pauses = rate(2, 3.0);
  options.server_pauses = rate(3, 0.7);
  options.partitions = rate(3, 0.7);
  options.zombies = rate(2, 1.0);
  options.slow_disk = rate(3, 0.5);
  options.full_disks = rate(4, 0.5);
  options.damage = rate(3, 2.0);
  options.calm_after = std::chrono::seconds(2 + pick(20));
  if (edition < 2) return options;
  random = RandomStream(seed, 3);
  options.damaged_payloads = rate(4, 0.05);
  options.repeated_late = rate(4, 0.03);
  options.clock_jumps = rate(4, 1.0);
  options.same_names = rate(4, 1.0);
  options.clogs = rate(4, 1.0);
  options.replays = rate(4, 0.05);
  options.slow_computing = rate(4, 0.1);
  options.slow_after = std::chrono::milliseconds(500 + pick(2000));
  options.aimed_crashes = rate(4, 0.2);
  if (pick(6) == 0) options.tensor_sizes = {3, 2};  // few blocks, perhaps fewer than shards
  options.workers_stay_away = pick(2) == 0;
  options.full_disks_kill = pick(2) == 0;
  if (edition < 3) return options;
  random = RandomStream(seed, 4);
  options.replays = std::max(options.replays, rate(4, 0.2));
  if (pick(4) == 0) {
    options.zombies = 1.0;
    options.coordinator_crashes += 2.0 * random.Unit();
  }
  if (edition < 4) return options;
  random = RandomStream(seed, 6);
  options.groups = pick(4) == 0;
  options.given = pick(4) == 0;
  options.given_kinds = 1 + pick(3);
  if (edition < 5) return options;
  random = RandomStream(seed, 7);
  if (pick(3) == 0) options.precision = pick(2) == 0 ? Precision::kBf16 : Precision::kFp16;
  options.statistics = pick(3) == 0;
  if (edition < 6) return options;
  random = RandomStream(seed, 8);
  constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdamW, OptimizerKind::kAdamW, OptimizerKind::kLars,
                                      OptimizerKind::kLamb};
  options.optimizer = kKinds[pick(std::size(kKinds))];
  if (edition < 7) return options;
  random = RandomStream(seed, 9);
  if (pick(2) == 0) {
    options.program_state =
        pick(2) == 0 ? ClusterOptions::ProgramState::kEverySlot : ClusterOptions::ProgramState::kLastSlot;
  }
  if (edition < 8) return options;
  random = RandomStream(seed, 10);
  options.stops = rate(4, 0.3);
  options.follower = pick(3) == 0;
  options.non_finite = rate(4, 0.1);
  if (edition < 9) return options;
  random = RandomStream(seed, 14);
  options.strangers = rate(3, 0.5);
  if (edition < 10) return options;
  random = RandomStream(seed, 15);
  constexpr OptimizerKind kMoreKinds[] = {OptimizerKind::kAdam,    OptimizerKind::kRmsprop, OptimizerKind::kNadam,
                                          OptimizerKind::kRadam,   OptimizerKind::kAdamax,  OptimizerKind::kAdadelta,
                                          OptimizerKind::kAdagrad, OptimizerKind::kLion};
  if (pick(3) == 0) options.optimizer = kMoreKinds[pick(std::size(kMoreKinds))];
  constexpr ClusterOptions::ProgramClip kClips[] = {
      ClusterOptions::ProgramClip::kNone, ClusterOptions::ProgramClip::kNone, ClusterOptions::ProgramClip::kNorm,
      ClusterOptions::ProgramClip::kValue};
  options.program_clip = kClips[pick(std::size(kClips))];
  if (options.program_clip == ClusterOptions::ProgramClip::kValue) options.clip_norm = 0.0;
  return options;
}

ClusterOptions OldJob(std::uint64_t seed, Mode mode, std::uint64_t steps) {
  RandomStream random(seed, 11);
  const auto pick = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random.Below(bound)); };
  ClusterOptions options;
  options.seed = seed;
  options.mode = mode;
  options.steps = steps;
  options.tensor_sizes = {4};
  options.block_elements = 2;
  options.shards = 1 + pick(2);
  options.slots = 2 + pick(2);
  options.workers = options.slots + 1 + pick(2);
  options.in_order = true;
  options.snapshot_every_steps = 2;
  options.compute_milliseconds = 20;
  options.uneven = HasGlobalSteps(mode) ? 1 : 10;
  options.log_records_max = options.reports_max = kOldLimit;
  options.follower = pick(4) == 0;
  options.worker_crashes = 1.0 * random.Unit();
  options.shard_crashes = 0.2 * random.Unit();
  options.coordinator_crashes = 0.1 * random.Unit();
  options.crashes_of_all = 0.03 * random.Unit();
  options.joins_and_leaves = 0.4 * random.Unit();
  options.stops = 0.05 * random.Unit();
  options.calm_after = std::chrono::milliseconds(50 * steps);
  options.give_up_after = options.calm_after + std::chrono::milliseconds(1000 * steps) + std::chrono::seconds(300);
  return options;
}

ClusterOptions SlowLines(std::uint64_t seed, Mode mode) {
  RandomStream random(seed, 12);
  const auto pick = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random.Below(bound)); };
  ClusterOptions options;
  options.seed = seed;
  options.mode = mode;
  options.steps = 4;
  options.tensor_sizes = {3072, 512, 1536};
  options.block_elements = 256;
  options.in_order = true;
  options.shards = 1 + pick(2);
  options.slots = 2 + pick(2);
  options.workers = 1 + pick(3);
  options.follower = pick(2) == 0;
  // How many seconds a block takes on a line.
  const double takes = 0.02 + 0.98 * random.Unit() * random.Unit();
  options.line_bytes_per_second = static_cast<double>(options.block_elements * sizeof(float)) / takes;
  if (pick(2) == 0) options.line_messages_max = 4 + pick(30);
  options.payload_factor_max = 1.3;
  if (pick(2) == 0) options.worker_crashes = 0.02 * random.Unit();
  if (pick(2) == 0) options.shard_crashes = 0.01 * random.Unit();
  options.calm_after = std::chrono::seconds(100);
  options.give_up_after = std::chrono::seconds(4000);
  return options;
}

void ShareMemory(ClusterOptions* options) {
  RandomStream random(options->seed, 16);
  options->shared_memory = options->in_order = true;
  options->duplication = options->repeated_late = options->replays = 0.0;
  if (random.Below(2) == 0) options->given_up = 10.0 * random.Unit();
  if (HasGlobalSteps(options->mode) || random.Below(2) == 0) return;
  options->optimizer = OptimizerKind::kSgd;  // without global steps, payloads are lent only if there are no states
  options->groups = false;                   // theirs have a momentum
}

void AddLogTroubles(ClusterOptions* options) {
  RandomStream random(options->seed, 5);
  options->log_records_max = 2 + random.Below(40);
  if (random.Below(2) == 0) options->slow_log = 0.4 * random.Unit();
  if (random.Below(2) == 0) options->failed_appends = 0.2 * random.Unit();
}

ClusterOptions Undisturbed(ClusterOptions options) {
  ClusterOptions calm;
  calm.seed = options.seed;
  calm.mode = options.mode;
  calm.aggregation = options.aggregation;
  calm.shards = calm.workers = 1;
  calm.slots = options.slots;
  calm.steps = options.steps;
  calm.block_elements = options.block_elements;
  calm.tensor_sizes = options.tensor_sizes;
  calm.clip_norm = options.clip_norm;
  calm.program_clip = options.program_clip;
  calm.optimizer = options.optimizer;
  calm.empty_slots = options.empty_slots;
  calm.groups = options.groups;
  calm.precision = options.precision;
  calm.statistics = options.statistics;
  calm.given = options.given;
  calm.given_from = options.given_from;
  calm.non_finite = options.non_finite;
  calm.compute_milliseconds = 1;
  calm.give_up_after = options.give_up_after;
  calm.snapshot_every_steps = 0;
  return calm;
}

std::string ReferenceKey(const ClusterOptions& options) {
  return std::to_string(options.slots) + "/" + std::to_string(options.steps) + "/" +
         std::to_string(options.block_elements) + "/" + std::to_string(options.clip_norm) + "/" +
         std::to_string(options.empty_slots) + "/" + std::to_string(options.groups) + "/" +
         std::to_string(static_cast<int>(options.precision)) + "/" + std::to_string(options.statistics) + "/" +
         std::to_string(static_cast<int>(options.optimizer)) + "/" + std::to_string(options.tensor_sizes.size()) + "/" +
         std::to_string(static_cast<int>(options.program_clip)) + "/" + std::to_string(options.non_finite) + "/" +
         std::to_string(static_cast<int>(options.aggregation)) + "/" +
         (options.given ? std::to_string(options.given_from) : "seed");
}

std::string Describe(const ClusterOptions& options) {
  std::string text = "seed " + std::to_string(options.seed) + ": " + std::to_string(options.shards) + " shards, " +
                     std::to_string(options.workers) + " workers, " + std::to_string(options.slots) + " slots, " +
                     std::to_string(options.steps) + " steps, blocks of " + std::to_string(options.block_elements) +
                     ", window " + std::to_string(options.window_blocks) + ", snapshots every " +
                     std::to_string(options.snapshot_every_steps) + " steps";
  const auto add = [&](const char* name, double value) {
    char number[32];
    std::snprintf(number, sizeof number, "%.3g", value);
    if (value > 0) text += std::string(", ") + name + " " + number;
  };
  if (options.precision != Precision::kFp32) text += options.precision == Precision::kBf16 ? ", bf16" : ", fp16";
  if (options.aggregation == Aggregation::kMedian) text += ", median";
  if (options.statistics) text += ", statistics";
  if (options.given) text += ", " + std::to_string(options.given_kinds) + " kinds of given weights";
  if (options.program_state == ClusterOptions::ProgramState::kEverySlot) text += ", a program state of every slot";
  if (options.program_state == ClusterOptions::ProgramState::kLastSlot) text += ", a program state of last slots";
  if (options.optimizer == OptimizerKind::kLars) text += ", lars";
  if (options.optimizer == OptimizerKind::kLamb) text += ", lamb";
  if (options.program_clip == ClusterOptions::ProgramClip::kNorm) text += ", norms from the program";
  if (options.program_clip == ClusterOptions::ProgramClip::kValue) text += ", limits of elements from the program";
  if (options.optimizer > OptimizerKind::kLamb) text += ", " + std::string(WordOf(options.optimizer));
  add("clip", options.clip_norm);
  add("groups", options.groups ? 2 : 0);
  add("snapshot seconds", options.snapshot_every_seconds);
  add("loss", options.loss);
  add("duplication", options.duplication);
  add("late", options.late);
  add("worker crashes", options.worker_crashes);
  add("coordinator crashes", options.coordinator_crashes);
  add("shard crashes", options.shard_crashes);
  add("crashes of all", options.crashes_of_all);
  add("joins and leaves", options.joins_and_leaves);
  add("worker pauses", options.worker_pauses);
  add("server pauses", options.server_pauses);
  add("partitions", options.partitions);
  add("zombies", options.zombies);
  add("slow disk", options.slow_disk);
  add("full disks", options.full_disks);
  add("damage", options.damage);
  add("slow log", options.slow_log);
  add("failed appends", options.failed_appends);
  add("damaged payloads", options.damaged_payloads);
  add("repeated late", options.repeated_late);
  add("replays", options.replays);
  add("slow computing", options.slow_computing);
  add("clock jumps", options.clock_jumps);
  add("same names", options.same_names);
  add("clogs", options.clogs);
  add("given up", options.given_up);
  add("aimed crashes", options.aimed_crashes);
  add("stops", options.stops);
  add("infinite gradients", options.non_finite);
  add("strangers", options.strangers);
  add("bytes per second of a line", options.line_bytes_per_second);
  if (options.follower) text += ", followed";
  return text;
}

}  // namespace capstan::sim
