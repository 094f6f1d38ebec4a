#include "common/config/job_config_check.h"

#include <algorithm>
#include <cmath>

#include "common/base/host_port.h"
#include "common/base/process_address.h"
#include "common/base/utf8.h"
#include "common/config/job_config_keys.h"

namespace capstan::job_config {

namespace {

using std::to_string;

constexpr std::size_t kNameBytesMax = 64;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMemoryGiBMax = 64;  // limit for one item in one process, far above what trains at a useful speed
constexpr double kRowNumbersMax = 1 << 20;
constexpr std::uint32_t kGroupMembersMax = 256;

// Returns a problem if the job's name is not safe as part of a path.
std::optional<Problem> FindNameProblem(const JobConfig& c) {
  const std::string& name = c.job.name;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char x) {
    return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') || x == '.' || x == '_' ||
           x == '-';
  });
  const bool begins_well = !name.empty() && name[0] != '.' && name[0] != '-';
  if (is_plain && begins_well && name.size() <= kNameBytesMax) return std::nullopt;
  return Problem{"job", "name",
                 "job.name is \"" + CleanUtf8(name, kNameBytesMax) + (name.size() > kNameBytesMax ? "..." : "") +
                     "\"; wanted 1 to 64 letters, digits, '.', '_' or '-', the first of them no '.' or '-'"};
}

std::string NameOf(ModelKind kind) {
  for (const Word<ModelKind>& word : kModels) {
    if (word.value == kind) return "model kind \"" + std::string(word.text) + "\"";
  }
  return "this model";
}

double Elements(const std::vector<std::uint32_t>& extents) {
  double count = 1;
  for (const double extent : extents) count *= extent;
  return count;
}

std::optional<Problem> FindImageProblem(const JobConfig& c) {
  const std::vector<std::uint32_t>& image = c.data.image;
  if (!image.empty() && image.size() != 3) {
    return Problem{"data", "image",
                   "image has " + to_string(image.size()) + " numbers; wanted [height, width, channels]"};
  }
  if (Elements(image) > kRowNumbersMax) {
    return Problem{"data", "image", "an image of more than 1048576 numbers; use smaller ones"};
  }
  if (c.model.reads_tokens() && !image.empty()) {
    return Problem{"data", "image",
                   "image says how rows of numbers are images, and " + NameOf(c.model.kind) +
                       " reads tokens; leave image out, or use model kind \"convnet\", \"resnet\" or \"mlp\""};
  }
  const bool may_say = c.data.kind == DataKind::kCsv || c.data.kind == DataKind::kSynthetic;
  if (!c.model.reads_images() || !may_say || !image.empty()) return std::nullopt;
  return Problem{"data", "kind",
                 NameOf(c.model.kind) + " reads images: say image = [height, width, channels], whose product is a " +
                     "row's numbers, or use data kind \"idx\" or \"cifar10\""};
}

// Returns a problem if a size contradicts the preset. Only the context may be shorter: that is the same model with
// fewer positions.
std::optional<Problem> FindPresetProblem(const JobConfig& c) {
  if (c.model.preset == ModelPreset::kNone) return std::nullopt;
  const GptSizes sizes = SizesOf(c.model.preset);
  std::string preset;
  for (const auto& word : kPresets) {
    if (word.value == c.model.preset) preset = "preset \"" + std::string(word.text) + "\" has ";
  }
  struct Size {
    const char *section, *key;
    std::uint32_t value, wanted;
  };
  for (const Size& size :
       {Size{"model", "layers", c.model.layers, sizes.layers}, Size{"model", "heads", c.model.heads, sizes.heads},
        Size{"model", "width", c.model.width, sizes.width},
        Size{"data", "vocabulary", c.data.vocabulary, sizes.vocabulary}}) {
    if (size.value == size.wanted) continue;
    return Problem{size.section, size.key,
                   std::string(size.key) + " = " + to_string(size.value) + ", and " + preset + to_string(size.wanted) +
                       "; leave " + size.key + " out, or leave the preset out and give all sizes"};
  }
  if (c.model.context <= sizes.context) return std::nullopt;
  return Problem{"model", "context",
                 "context = " + to_string(c.model.context) + ", and " + preset + "positions for " +
                     to_string(sizes.context) + " at most"};
}

std::optional<Problem> FindResnetProblem(const JobConfig& c) {
  if (c.model.kind != ModelKind::kResnet) return std::nullopt;
  const std::uint32_t depths[] = {18, 34, 50, 101, 152};
  if (std::find(std::begin(depths), std::end(depths), c.model.depth) == std::end(depths)) {
    return Problem{"model", "depth",
                   "depth = " + to_string(c.model.depth) + "; a resnet has 18, 34, 50, 101 or 152 layers"};
  }
  if (c.model.width > 2048) {
    return Problem{"model", "width", "width = " + to_string(c.model.width) + "; a resnet's is at most 2048"};
  }
  return std::nullopt;
}

std::optional<Problem> FindModelProblem(const JobConfig& c) {
  const bool is_gpt = c.model.reads_tokens();
  if (auto problem = FindPresetProblem(c)) return problem;
  if (is_gpt && c.model.width % c.model.heads != 0) {
    return Problem{"model", "heads",
                   "heads = " + to_string(c.model.heads) + " does not divide width = " + to_string(c.model.width) +
                       "; each head gets width / heads numbers"};
  }
  const bool has_tokens = c.data.kind == DataKind::kText || c.data.kind == DataKind::kTokens;
  const bool has_features =
      c.data.kind == DataKind::kIdx || c.data.kind == DataKind::kCsv || c.data.kind == DataKind::kCifar10;
  if (is_gpt && has_features) {
    return Problem{"data", "kind", "model kind \"gpt\" reads tokens: data kind \"text\", \"tokens\" or \"synthetic\""};
  }
  if (!is_gpt && has_tokens) {
    return Problem{
        "data", "kind",
        NameOf(c.model.kind) + " reads rows of numbers: data kind \"idx\", \"csv\", \"cifar10\" or \"synthetic\""};
  }
  if (auto problem = FindImageProblem(c)) return problem;
  if (auto problem = FindResnetProblem(c)) return problem;
  if (c.data.kind != DataKind::kSynthetic && c.data.path.empty()) {
    return Problem{"data", "path", "path is empty; name the file or folder to train on"};
  }
  if (c.data.kind == DataKind::kIdx && c.data.labels.empty()) {
    return Problem{"data", "labels", "labels is empty; name the file of labels that belongs to path"};
  }
  if (c.job.eval_every > 0 && c.data.validation == 0) {
    return Problem{"job", "eval_every",
                   "eval_every = " + to_string(c.job.eval_every) +
                       " needs held-out samples, and [data] validation is 0; set it to 0.1, or eval_every to 0"};
  }
  return std::nullopt;
}

// Returns a problem if the job asks of the servers what the program's own optimizer does, or does with other numbers.
std::optional<Problem> FindExternalProblem(const JobConfig& c) {
  if (c.optimizer.kind != OptimizerKind::kExternal) return std::nullopt;
  const char* const why = "with [optimizer] kind = \"external\" ";
  if (c.model.built_in()) {
    return Problem{"optimizer", "kind",
                   "kind \"external\" leaves the optimizer to a program of yours, and capstan-worker has none; set "
                   "[model] kind = \"client\", or take \"adamw\" or another kind that the servers run"};
  }
  if (c.job.mode != Mode::kSync) {
    return Problem{"job", "mode",
                   std::string(why) +
                       "every process takes the same mean gradient in each step, which only mode "
                       "\"sync\" has; set mode = \"sync\""};
  }
  if (c.worker.precision != Precision::kFp32) {
    return Problem{"worker", "precision",
                   std::string(why) +
                       "gradients travel as fp32, and their loss scale is the program's own; set "
                       "precision = \"fp32\""};
  }
  if (c.schedule.kind != ScheduleKind::kConstant || c.schedule.warmup_steps != 0) {
    return Problem{"schedule", "kind",
                   std::string(why) + "the learning rate is the program's own; take the section [schedule] out"};
  }
  return std::nullopt;
}

std::optional<Problem> FindStepProblem(const JobConfig& c) {
  if (auto problem = FindExternalProblem(c)) return problem;
  if (WorkersUpdate(c.job.mode) && !c.model.built_in()) {
    return Problem{"job", "mode",
                   "mode \"allreduce\" is built for the models of capstan-worker; programs of [model] kind \"client\" "
                   "train in mode \"sync\", \"async\" or \"bounded\""};
  }
  if (WorkersUpdate(c.job.mode) && c.allreduce.collective == Collective::kNccl &&
      c.worker.device.kind == DeviceKind::kCpu) {
    return Problem{"allreduce", "collective",
                   "collective = \"nccl\" is for workers that compute on a GPU, and [worker] device is \"cpu\"; take "
                   "\"gloo\", or \"auto\", which takes what there is"};
  }
  if (ReducesLocally(c) && (c.job.mode != Mode::kSync || !c.model.built_in())) {
    return Problem{"allreduce", "local_reduce",
                   "local_reduce is built for the pushes of capstan-worker in mode \"sync\"; set it to \"none\" "
                   "in other modes and where [model] kind is \"client\""};
  }
  if (WorkersUpdate(c.job.mode) && !AddsGradients(c.job.aggregation)) {
    return Problem{
        "job", "aggregation",
        "in mode \"allreduce\" the workers add gradients among themselves, so aggregation is \"mean\"; set it so, "
        "or set mode = \"sync\""};
  }
  if (ReducesLocally(c) && !AddsGradients(c.job.aggregation)) {
    return Problem{
        "allreduce", "local_reduce",
        "local_reduce adds the gradients of a machine's workers, and [job] aggregation needs each slot's own unless it "
        "is \"mean\"; set local_reduce to \"none\", or aggregation to \"mean\""};
  }
  if (c.allreduce.local_reduce == LocalReduce::kNccl && c.worker.device.kind == DeviceKind::kCpu) {
    return Problem{"allreduce", "local_reduce",
                   "local_reduce = \"nccl\" is for workers that compute on a GPU, and [worker] device is \"cpu\"; take "
                   "\"gloo\""};
  }
  if (c.job.slots > c.job.global_batch) {
    return Problem{"job", "global_batch",
                   "global_batch = " + to_string(c.job.global_batch) + " is less than the " + to_string(c.job.slots) +
                       " slots, and a slot would never have a sample; raise it or lower slots"};
  }
  if (c.schedule.warmup_steps > c.job.steps) {
    return Problem{"schedule", "warmup_steps",
                   "warmup_steps = " + to_string(c.schedule.warmup_steps) + " is more than the job's " +
                       to_string(c.job.steps) + " steps; lower it, or raise [job] steps"};
  }
  if (c.schedule.kind != ScheduleKind::kConstant && c.schedule.min_lr > c.optimizer.lr) {
    return Problem{"schedule", "min_lr", "min_lr is above [optimizer] lr, and the schedule goes down"};
  }
  if (c.worker.precision == Precision::kFp16 && c.job.mode != Mode::kSync && !c.model.built_in()) {
    return Problem{"worker", "precision",
                   "precision \"fp16\" of a model.kind \"client\" is built for mode \"sync\" only, so far"};
  }
  if (TakesTrustRatio(c.optimizer.kind) && !HasGlobalSteps(c.job.mode)) {
    return Problem{
        "optimizer", "kind",
        std::string("kind \"") + (c.optimizer.kind == OptimizerKind::kLars ? "lars" : "lamb") +
            "\" takes one ratio for each tensor from the verdict on a whole step, and only modes \"sync\" and "
            "\"allreduce\" have whole steps; set [job] mode = \"sync\", or take kind \"momentum\" or \"adamw\""};
  }
  if (c.optimizer.nesterov && (c.optimizer.momentum == 0 || c.optimizer.dampening != 0)) {
    return Problem{"optimizer", "nesterov", "nesterov needs a momentum above 0 and dampening = 0"};
  }
  return std::nullopt;
}

// Returns a problem if the job's messages are encrypted, and gradients that workers send each other would not be.
std::optional<Problem> FindCollectiveProblem(const JobConfig& c) {
  if (TransportOf(c) != TransportWord::kCurve || c.security.plaintext_collectives) return std::nullopt;
  if (EncryptsCollectives(c) || !(WorkersUpdate(c.job.mode) || ReducesLocally(c))) return std::nullopt;
  const std::string_view key = WorkersUpdate(c.job.mode) ? "collective" : "local_reduce";
  return Problem{"allreduce", key,
                 "the job's messages are encrypted, and the gradients that workers send each other by Gloo or NCCL are "
                 "not, for neither has keys; take " +
                     std::string(key) +
                     " = \"secure\", or write [security] plaintext_collectives = true if only your machines reach each "
                     "other's ports, as in a WireGuard network"};
}

// Returns a problem if an address does not fit the transport, or the other addresses.
std::optional<Problem> FindAddressProblem(const JobConfig& c) {
  const std::string& coordinator = c.cluster.coordinator;
  const TransportWord transport = TransportOf(c);
  if (transport != TransportWord::kCurve && !KeyInAddress(coordinator).empty()) {
    return Problem{
        "cluster", "coordinator",
        "cluster.coordinator has a key (after #), and security.transport is for connections without keys; leave "
        "transport out, or the key"};
  }
  if (transport != TransportWord::kLocal) {
    if (!IsLocalAddress(coordinator)) return FindCollectiveProblem(c);
    return Problem{
        "cluster", "coordinator",
        "cluster.coordinator is " + coordinator +
            ", a socket of this machine, and other settings are for TCP (cluster.listen, cluster.advertise or "
            "security.transport); leave those out, or coordinator"};
  }
  const auto is_for_tcp = [](const char* key, const std::string& value) {
    return Problem{"cluster", key,
                   std::string(key) + " = \"" + value +
                       "\" is for TCP, and [security] transport = \"local\" has sockets of this machine in its place; "
                       "leave " +
                       key + " out, or the transport"};
  };
  if (coordinator != kAutoAddress && !IsLocalAddress(coordinator)) return is_for_tcp("coordinator", coordinator);
  if (c.cluster.listen != ClusterSection().listen) return is_for_tcp("listen", c.cluster.listen);
  if (!c.cluster.advertise.empty()) return is_for_tcp("advertise", c.cluster.advertise);
  return std::nullopt;
}

std::optional<Problem> FindClusterProblem(const JobConfig& c) {
  if (WorkersUpdate(c.job.mode) && std::min(c.cluster.workers, c.job.slots) > kGroupMembersMax) {
    return Problem{"cluster", "workers",
                   "workers = " + to_string(c.cluster.workers) + "; mode \"allreduce\" takes at most " +
                       to_string(kGroupMembersMax) + ", each of which has connections to all others"};
  }
  if (auto problem = FindAddressProblem(c)) return problem;
  if (c.cluster.min_workers > c.cluster.workers) {
    return Problem{"cluster", "min_workers",
                   "min_workers = " + to_string(c.cluster.min_workers) +
                       " is more than workers = " + to_string(c.cluster.workers)};
  }
  return std::nullopt;
}

// Returns a problem if the system cannot start the command.
std::optional<Problem> FindCommandProblem(const JobConfig& c) {
  const std::vector<std::string>& command = c.worker.command;
  if (command.empty()) return std::nullopt;
  if (command.front().empty()) {
    return Problem{"worker", "command",
                   "the first text of command is empty; it names the program: [\"python3\", \"train.py\"]"};
  }
  for (const std::string& word : command) {
    if (word.find('\0') == word.npos) continue;
    return Problem{"worker", "command",
                   "a text of command has a zero byte, which no program can be given; leave it out"};
  }
  return std::nullopt;
}

std::optional<Problem> FindMetricsProblem(const JobConfig& c) {
  if (c.metrics.certificate.empty() != c.metrics.key.empty()) {
    const bool has_key = c.metrics.certificate.empty();
    return Problem{"metrics", has_key ? "key" : "certificate",
                   "https needs a certificate and its private key; write the file of the " +
                       std::string(has_key ? "certificate" : "key") + ", too, or leave both out"};
  }
  for (const std::string& host : c.metrics.hosts) {
    if (IsHostPort(host + ":1")) continue;
    return Problem{
        "metrics", "hosts",
        "\"" + CleanUtf8(host, kNameBytesMax) + "\" in hosts is no name or address; write it without a port"};
  }
  return std::nullopt;
}

// Returns `problem`, with the size added to its message, if `numbers` 4-byte numbers take more than kMemoryGiBMax.
std::optional<Problem> FindMemoryProblem(double numbers, Problem problem) {
  const double gib = numbers * 4 / kGiB;
  if (gib <= kMemoryGiBMax) return std::nullopt;
  problem.message += " would take " + to_string(static_cast<std::uint64_t>(std::min(gib, 1e18))) +
                     " GiB of memory, and the limit is 64 GiB; lower one of them";
  return problem;
}

// Counts of numbers in a convnet: the output of its convolutions, their weights, and their activations for one image.
// All are 0 if the image's size is not known yet.
struct Convolved {
  double features = 0, weights = 0, activations = 0;
};

Convolved Convolve(const JobConfig& c) {
  if (c.data.image.size() != 3) return {};
  double height = c.data.image[0], width = c.data.image[1], before = c.data.image[2];
  Convolved made;
  for (const double filters : c.model.channels) {
    made.weights += 9 * before * filters;
    made.activations += height * width * filters;
    height = std::floor(height / 2);
    width = std::floor(width / 2);
    before = filters;
  }
  made.features = height * width * before;
  return made;
}

// Estimates the number of weights, which grows with the square of the width.
double ResnetWeights(const ModelSection& model) {
  const double at_width_64 = model.depth < 50 ? 11e6 * model.depth / 18 : 23e6 * model.depth / 50;
  return at_width_64 * (model.width / 64.0) * (model.width / 64.0);
}

// Estimates the number of the model's weights. Sizes that follow from data files are not known yet and are given as 0,
// so the layers that depend on them count as 0.
double WeightCount(const JobConfig& c, double features, double classes, double vocabulary) {
  if (c.model.kind == ModelKind::kGpt) {
    const double width = c.model.width;
    return 12 * width * width * c.model.layers + (vocabulary + c.model.context) * width;
  }
  if (c.model.kind == ModelKind::kResnet) return ResnetWeights(c.model);
  const Convolved convolved = c.model.kind == ModelKind::kConvnet ? Convolve(c) : Convolved{.features = features};
  double count = convolved.weights, before = convolved.features;
  for (double width : c.model.hidden) {
    count += before * width;
    before = width;
  }
  return count + before * classes;
}

Problem TooManyWeights(const ModelSection& model) {
  switch (model.kind) {
    case ModelKind::kGpt: return {"model", "width", "the weights of [model] layers, width, context and the vocabulary"};
    case ModelKind::kResnet: return {"model", "width", "the weights of [model] depth and width"};
    case ModelKind::kConvnet:
      return {"model", "channels", "the weights of [model] channels and hidden with [data] image and classes"};
    case ModelKind::kMlp:
    case ModelKind::kClient: break;
  }
  return {"model", "hidden", "the weights of [model] hidden and [data] features, classes"};
}

std::optional<Problem> FindSizeProblem(const JobConfig& c) {
  const bool is_gpt = c.model.reads_tokens(), is_synthetic = c.data.kind == DataKind::kSynthetic;
  const double features = is_synthetic ? c.data.row_features() : 0, classes = is_synthetic ? c.data.classes : 0;
  const double vocabulary = is_synthetic || c.data.kind == DataKind::kTokens ? c.data.vocabulary : 0;
  const Problem too_many_features = {"data", "features", "[data] features x classes"};
  const Problem too_wide = TooManyWeights(c.model);
  if (auto problem = FindMemoryProblem(is_gpt ? 0 : features * classes, too_many_features)) return problem;
  if (auto problem = FindMemoryProblem(WeightCount(c, features, classes, vocabulary), too_wide)) return problem;
  // Estimates how many numbers a slot computes with at a time: the samples of a micro-batch times the largest array of
  // one sample.
  const double samples = (c.job.global_batch - 1.0) / c.job.slots / c.worker.accumulate + 1;
  const double each =
      is_gpt ? c.model.context * std::max<double>(vocabulary, c.model.width)
             : std::max({features, classes, c.model.kind == ModelKind::kConvnet ? Convolve(c).activations : 0});
  const std::string of_each = is_gpt                                ? "[model] context x its width or [data] vocabulary"
                              : c.model.kind == ModelKind::kConvnet ? "[data] image x [model] channels, or its classes"
                              : c.model.reads_images()              ? "[data] image or classes"
                                                                    : "[data] features or classes";
  return FindMemoryProblem(
      samples * each,
      {"job", "global_batch", "a batch of global_batch / (slots x [worker] accumulate) samples x " + of_each});
}

}  // namespace

std::optional<Problem> FindProblem(const JobConfig& config) {
  if (auto problem = FindNameProblem(config)) return problem;
  const bool built_in = config.model.built_in();  // otherwise the workers declare the shapes
  if (auto problem = built_in ? FindModelProblem(config) : std::nullopt) return problem;
  if (auto problem = FindStepProblem(config)) return problem;
  if (auto problem = FindClusterProblem(config)) return problem;
  if (auto problem = FindMetricsProblem(config)) return problem;
  if (auto problem = FindCommandProblem(config)) return problem;
  return built_in ? FindSizeProblem(config) : std::nullopt;
}

}  // namespace capstan::job_config
