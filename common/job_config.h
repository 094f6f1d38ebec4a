// JobConfig: the job file, read, checked and with every default filled in.
//
// Kind:   values.
// Fails:  kInvalid, kUnsupported (a word of the design that is not built yet); every message starts with
//         file:line:column (or the override's text), shows the line, and suggests the nearest word.
// Why:    one file for every process. The text of PrintJobConfig is what the coordinator hands to workers, so that all
//         of them run on the same effective values, whatever the defaults of their build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/encoding.h"
#include "common/status.h"

namespace capstan {

// kAllReduce: the workers add up gradients among themselves and update weights that each of them has; the servers have
// those versions that are kept.
enum class Mode : std::uint8_t { kSync, kAsync, kBounded, kAllReduce };

// Whether steps of this mode are prepared by all shards and committed by the coordinator.
inline bool HasGlobalSteps(Mode mode) { return mode == Mode::kSync || mode == Mode::kAllReduce; }
// Whether workers run the optimizer: then shards have the blocks of kept versions alone.
inline bool WorkersUpdate(Mode mode) { return mode == Mode::kAllReduce; }

// When a shard of a mode without global steps says that it has a push: when it is applied, or when it is on disk too.
enum class Acknowledge : std::uint8_t { kReceived, kDurable };
enum class NonFinitePolicy : std::uint8_t { kStop, kSkip };
// kClient: the workers are programs of the user's own; the first of them declares the tensors.
enum class ModelKind : std::uint8_t { kGpt, kMlp, kConvnet, kResnet, kClient };
// Sizes of gpt that others have weights for: OpenAI's GPT-2.
enum class ModelPreset : std::uint8_t { kNone, kGpt2, kGpt2Medium, kGpt2Large, kGpt2Xl };
enum class DataKind : std::uint8_t { kText, kTokens, kIdx, kCsv, kCifar10, kSynthetic };
// How a token lies in a file, little endian.
enum class TokenType : std::uint8_t { kUint16, kUint32 };
enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdam, kAdamW, kAdagrad, kLars, kLamb };
enum class ScheduleKind : std::uint8_t { kConstant, kCosine, kLinear };
enum class DeviceKind : std::uint8_t { kCpu, kCuda, kEmulated };
// kFp16: gradients come scaled, and the coordinator decides the scale of each step.
enum class Precision : std::uint8_t { kFp32, kFp16, kBf16 };

struct JobSection {
  std::string name = "job";
  Mode mode = Mode::kSync;
  std::uint64_t steps = 0;  // required; global batches in sync, sequence numbers of each slot in async
  std::uint64_t seed = 1;
  std::uint32_t global_batch = 0;  // required; samples of all slots together
  std::uint32_t slots = 0;         // 0 in the file: as many as workers; after reading never 0
  std::uint64_t staleness = 1;     // bounded: how many of its own steps a slot may be ahead of the slowest one
  Acknowledge acknowledge = Acknowledge::kReceived;  // async, bounded
  std::uint64_t eval_every = 0;                      // steps between validations; 0: never
  NonFinitePolicy on_nonfinite = NonFinitePolicy::kStop;
  bool operator==(const JobSection&) const = default;
};

struct ModelSection {
  ModelKind kind = ModelKind::kMlp;  // required
  // gpt; a preset fixes the sizes, but for a smaller context
  ModelPreset preset = ModelPreset::kNone;
  std::uint32_t layers = 4;
  std::uint32_t heads = 4;
  std::uint32_t width = 128;    // resnet too: channels of its first stage, default 64
  std::uint32_t context = 128;  // tokens of a sample
  // resnet
  std::uint32_t depth = 18;  // 18, 34, 50, 101 or 152
  // convnet
  std::vector<std::uint32_t> channels = {32, 64};  // filters of each convolution; each is followed by a halving
  // mlp, convnet
  std::vector<std::uint32_t> hidden = {128};
  // gpt, mlp, convnet
  double dropout = 0.0;  // in [0, 1)
  bool operator==(const ModelSection&) const = default;

  // Whether capstan-worker computes it. Otherwise [data] and [worker] mean nothing: nobody of ours would read them.
  bool built_in() const { return kind != ModelKind::kClient; }
  bool reads_tokens() const { return kind == ModelKind::kGpt; }
  bool can_recompute() const { return kind == ModelKind::kGpt || kind == ModelKind::kResnet; }
  bool reads_images() const { return kind == ModelKind::kConvnet || kind == ModelKind::kResnet; }
};

struct DataSection {
  DataKind kind = DataKind::kSynthetic;  // required
  std::string path;         // text, tokens: a file or a folder; idx: the images; csv: the table; cifar10: the folder
  double validation = 0.1;  // fraction of the samples that is held out; cifar10 comes with its own
  // text, tokens
  std::vector<std::string> include;  // shell patterns for files of a folder; empty: all files
  std::uint64_t max_bytes = 0;       // read no more than this; 0: no limit
  // tokens
  TokenType type = TokenType::kUint16;
  // idx
  std::string labels;
  // csv
  std::int64_t label_column = -1;  // from 0; negative: from the end
  std::uint32_t header_lines = 0;  // lines to skip at the top
  // idx, csv
  double scale = 1.0;  // inputs are divided by it; default 255 for idx, 1 for csv
  // cifar10: random changes of training images
  bool crop = true;
  bool flip = true;
  // csv, synthetic
  std::vector<std::uint32_t> image;  // [height, width, channels] of a row, which is an image; empty: it is none
  // synthetic
  std::uint64_t samples = 4096;
  std::uint32_t features = 32;  // numbers of a row that is no image
  std::uint32_t classes = 10;   // of rows
  // synthetic (gpt), tokens: ids are below it
  std::uint32_t vocabulary = 64;  // the preset's; without one, required for tokens
  bool operator==(const DataSection&) const = default;

  // synthetic: numbers of a row.
  std::uint32_t row_features() const { return image.empty() ? features : image[0] * image[1] * image[2]; }
};

// The defaults are PyTorch's for each kind, and those of its paper where PyTorch has none (lars, lamb); `momentum`
// defaults to 0.9 where PyTorch has 0.
struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double lr = 1e-3;    // adagrad: 1e-2; lars: 0.1
  double beta1 = 0.9;  // adam, adamw, lamb: betas = [beta1, beta2]
  double beta2 = 0.999;
  double eps = 1e-8;                  // adam, adamw; adagrad: 1e-10; lamb: 1e-6
  double momentum = 0.9;              // momentum, lars
  bool nesterov = false;              // momentum
  double weight_decay = 0.0;          // adamw, lamb (decoupled): 0.01; the others: L2
  double trust_coefficient = 1e-3;    // lars
  std::vector<std::string> no_decay;  // shell patterns of tensor names without weight decay
  double clip_norm = 0.0;             // 0: no clipping
  bool operator==(const OptimizerSection&) const = default;
};

// Whether an update takes one ratio for each tensor, from norms that only a whole step has.
inline bool TakesTrustRatio(OptimizerKind kind) { return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb; }

// Whether weight decay applies to the tensor of this name.
bool DecayApplies(const OptimizerSection& optimizer, std::string_view tensor_name);

struct ScheduleSection {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::uint64_t warmup_steps = 0;
  double min_lr = 0.0;  // cosine, linear: the rate at the last step
  bool operator==(const ScheduleSection&) const = default;
};

// Endpoints are "host:port"; port 0 is any free port, published in the run directory.
struct ClusterSection {
  std::uint32_t servers = 1;
  std::uint32_t shards_per_server = 1;
  std::uint32_t workers = 1;
  std::uint32_t min_workers =
      0;  // the job starts without the others after half of limits.join; 0 in the file: all of them
  std::string coordinator = "127.0.0.1:0";
  std::string listen = "127.0.0.1:0";  // of shards; shard j of a server takes port + j unless it is 0
  std::string advertise;               // host that others reach this one by; empty: the host of `listen`
  bool operator==(const ClusterSection&) const = default;
};

// "cuda" is the device that the worker's place among those of its machine gives it, "cuda:1" the one of that number.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<std::uint32_t> index = {};
  bool operator==(const Device&) const = default;
};

struct WorkerSection {
  Device device;
  Precision precision = Precision::kFp32;
  std::uint32_t accumulate = 1;  // micro-batches of a slot
  std::uint32_t threads = 0;     // 0: the worker chooses
  bool recompute = false;        // gpt, resnet: compute layers again on the way back, in less memory
  bool operator==(const WorkerSection&) const = default;
};

// Seconds.
struct LimitsSection {
  double join = 60;    // until every server and min_workers are there
  double lease = 10;   // silence after which a worker is lost
  double report = 5;   // between two lines that say what is waited for
  double stall = 600;  // without progress, then the job fails; 0: never
  bool operator==(const LimitsSection&) const = default;
};

// When snapshots are taken. Both 0: never.
struct SnapshotSection {
  std::uint64_t every_steps = 0;  // 0: not by steps
  double every_seconds = 60;      // since the last one; 0: not by time
  std::uint32_t keep = 2;         // newest ones that stay; at least 2
  bool operator==(const SnapshotSection&) const = default;

  bool enabled() const { return every_steps > 0 || every_seconds > 0; }
};

// Who adds up gradients among the workers. kAuto: NCCL where each has a device with it, else Gloo.
enum class Collective : std::uint8_t { kAuto, kGloo, kNccl };

// Mode sync: whether the workers of one machine add up their gradients, so that one of them pushes for all. kGloo: over
// connections of Gloo, on the CPU. kNccl: on the device of the first of them, to which the others' send theirs.
enum class LocalReduce : std::uint8_t { kNone, kGloo, kNccl };

// How gradients travel among the workers. In mode allreduce all but local_reduce change the order or rounding of sums.
struct AllReduceSection {
  Collective collective = Collective::kAuto;
  double bucket_mib = 8;            // of gradients that are added up at a time, while backward goes on
  Encoding wire = Encoding::kFp32;  // kBf16: half the bytes, sums rounded at each worker that they pass
  LocalReduce local_reduce = LocalReduce::kNone;
  bool operator==(const AllReduceSection&) const = default;
};

struct MetricsSection {
  std::string listen = "127.0.0.1:0";
  bool operator==(const MetricsSection&) const = default;
};

struct JobConfig {
  JobSection job;
  ModelSection model;
  DataSection data;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ClusterSection cluster;
  WorkerSection worker;
  SnapshotSection snapshot;
  LimitsSection limits;
  AllReduceSection allreduce;
  MetricsSection metrics;
  bool operator==(const JobConfig&) const = default;

  std::uint32_t shard_count() const { return cluster.servers * cluster.shards_per_server; }
};

inline bool ReducesLocally(const JobConfig& config) { return config.allreduce.local_reduce != LocalReduce::kNone; }

// How the weights and gradients of a job travel. Workers that are programs of their own have fp32.
Encoding EncodingOf(const JobConfig& config);

// An override is "section.key=value", the value in TOML or a bare string; the last one of a key counts.
Result<JobConfig> ParseJobConfig(std::string_view text, std::string_view file_name,
                                 const std::vector<std::string>& overrides = {});
Result<JobConfig> LoadJobConfig(const std::string& path, const std::vector<std::string>& overrides = {});

// Canonical TOML of the effective values; ParseJobConfig of it gives the same JobConfig.
std::string PrintJobConfig(const JobConfig& config);

// XXH3 of what the bits of the weights depend on and what members must share. Left out: cluster.workers, min_workers
// and addresses, worker.threads, snapshot, limits, metrics.
std::uint64_t HashJobConfig(const JobConfig& config);

// "[optimizer]: it was begun with lr = 0.1, now lr = 0.2": the first thing that the bits of the weights depend on and
// that differs; empty when there is none. The number of servers and where the data lies may change, and sync may become
// allreduce or the other way round: what is on disk is the same in both.
std::string DescribeDifference(const JobConfig& begun, const JobConfig& now);

}  // namespace capstan
