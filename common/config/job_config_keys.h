// Every section and key of the job file, listed once: the reader, the printer and the list of names are visitors of
// this list.
//
// Kind:   internal to common/config/job_config*.cc.
// Why:    reading, printing, hashing and suggestions cannot drift apart.
//
// A visitor has Begin(section, when), End(), and one method per type of value, which takes the key, the field and its
// limits. Later(word) is for a planned key that this build does not have, Default(field, value) for a default that
// depends on a kind.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "common/config/job/sections.h"
#include "common/config/job_config.h"

namespace capstan::job_config {

// Whether a key or a section applies, given the values of other keys.
struct When {
  bool applies = true;
  std::string_view condition;  // such as: kind = "gpt"
};

enum class Need : std::uint8_t { kOptional, kRequired };

struct Key {
  std::string_view name;
  When when = {};
  Need need = Need::kOptional;
};

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

enum class Bound : std::uint8_t { kIncluded, kExcluded };

struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::max();
  Bound min_bound = Bound::kIncluded;
  Bound max_bound = Bound::kIncluded;
};

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};

// The words for the values of an enumeration, and planned words that this build does not have yet.
template <class Value>
struct Words {
  std::span<const Word<Value>> built;
  std::span<const std::string_view> later;
};

inline constexpr Word<Mode> kModes[] = {
    {"sync", Mode::kSync}, {"async", Mode::kAsync}, {"bounded", Mode::kBounded}, {"allreduce", Mode::kAllReduce}};
inline constexpr std::string_view kModesLater[] = {"local"};
inline constexpr Word<Acknowledge> kAcknowledges[] = {{"received", Acknowledge::kReceived},
                                                      {"durable", Acknowledge::kDurable}};
inline constexpr Word<Aggregation> kAggregations[] = {{"mean", Aggregation::kMean}, {"median", Aggregation::kMedian}};
inline constexpr Word<NonFinitePolicy> kPolicies[] = {{"stop", NonFinitePolicy::kStop},
                                                      {"skip", NonFinitePolicy::kSkip}};
inline constexpr Word<ModelKind> kModels[] = {{"gpt", ModelKind::kGpt},
                                              {"mlp", ModelKind::kMlp},
                                              {"convnet", ModelKind::kConvnet},
                                              {"resnet", ModelKind::kResnet},
                                              {"client", ModelKind::kClient}};
inline constexpr std::string_view kModelsLater[] = {"dlrm"};
inline constexpr Word<ModelPreset> kPresets[] = {{"gpt2", ModelPreset::kGpt2},
                                                 {"gpt2-medium", ModelPreset::kGpt2Medium},
                                                 {"gpt2-large", ModelPreset::kGpt2Large},
                                                 {"gpt2-xl", ModelPreset::kGpt2Xl}};
inline constexpr Word<DataKind> kData[] = {{"text", DataKind::kText},       {"tokens", DataKind::kTokens},
                                           {"idx", DataKind::kIdx},         {"csv", DataKind::kCsv},
                                           {"cifar10", DataKind::kCifar10}, {"synthetic", DataKind::kSynthetic}};
inline constexpr std::string_view kDataLater[] = {"criteo"};
inline constexpr Word<TokenType> kTokenTypes[] = {{"uint16", TokenType::kUint16}, {"uint32", TokenType::kUint32}};
inline constexpr Word<OptimizerKind> kOptimizers[] = {
    {"sgd", OptimizerKind::kSgd},           {"momentum", OptimizerKind::kMomentum},
    {"adam", OptimizerKind::kAdam},         {"adamw", OptimizerKind::kAdamW},
    {"adagrad", OptimizerKind::kAdagrad},   {"rmsprop", OptimizerKind::kRmsprop},
    {"adadelta", OptimizerKind::kAdadelta}, {"adamax", OptimizerKind::kAdamax},
    {"nadam", OptimizerKind::kNadam},       {"radam", OptimizerKind::kRadam},
    {"lion", OptimizerKind::kLion},         {"lars", OptimizerKind::kLars},
    {"lamb", OptimizerKind::kLamb},         {"external", OptimizerKind::kExternal}};
inline constexpr Word<ScheduleKind> kSchedules[] = {
    {"constant", ScheduleKind::kConstant}, {"cosine", ScheduleKind::kCosine}, {"linear", ScheduleKind::kLinear}};
inline constexpr Word<DeviceKind> kDevices[] = {
    {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}, {"emulated", DeviceKind::kEmulated}};
inline constexpr Word<Precision> kPrecisions[] = {
    {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}};
inline constexpr Word<Precision> kClientPrecisions[] = {{"fp32", Precision::kFp32}, {"fp16", Precision::kFp16}};
inline constexpr Word<Encoding> kWires[] = {{"fp32", Encoding::kFp32}, {"bf16", Encoding::kBf16}};
inline constexpr std::string_view kWiresLater[] = {"fp16"};
inline constexpr Word<Collective> kCollectives[] = {{"auto", Collective::kAuto},
                                                    {"gloo", Collective::kGloo},
                                                    {"nccl", Collective::kNccl},
                                                    {"secure", Collective::kSecure}};
inline constexpr Word<LocalReduce> kLocalReduces[] = {{"none", LocalReduce::kNone},
                                                      {"gloo", LocalReduce::kGloo},
                                                      {"nccl", LocalReduce::kNccl},
                                                      {"secure", LocalReduce::kSecure}};

inline constexpr Word<TransportWord> kTransports[] = {{"auto", TransportWord::kAuto},
                                                      {"local", TransportWord::kLocal},
                                                      {"plaintext", TransportWord::kPlaintext},
                                                      {"curve", TransportWord::kCurve}};

inline constexpr std::int64_t kBatchMax = 1 << 24;  // sample counts are exact in fp32
inline constexpr std::int64_t kMembersMax = 4096;
inline constexpr NumberRange kBeta{0, 1, Bound::kIncluded, Bound::kExcluded};
inline constexpr NumberRange kSeconds{0, 1e9, Bound::kExcluded};

// The sizes of a gpt; the defaults are those of a job file without a preset.
struct GptSizes {
  std::uint32_t layers = 4, heads = 4, width = 128, context = 128, vocabulary = 64;
};

constexpr GptSizes SizesOf(ModelPreset preset) {
  switch (preset) {
    case ModelPreset::kGpt2: return {12, 12, 768, 1024, 50257};
    case ModelPreset::kGpt2Medium: return {24, 16, 1024, 1024, 50257};
    case ModelPreset::kGpt2Large: return {36, 20, 1280, 1024, 50257};
    case ModelPreset::kGpt2Xl: return {48, 25, 1600, 1024, 50257};
    case ModelPreset::kNone: break;
  }
  return {};
}

// The defaults that depend on the kind.
struct OptimizerDefaults {
  double lr = 1e-3, beta2 = 0.999, eps = 1e-8, momentum = 0.9, alpha = 0.99, weight_decay = 0.0;
};

constexpr OptimizerDefaults DefaultsOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdagrad: return {.lr = 1e-2, .eps = 1e-10};
    case OptimizerKind::kRmsprop: return {.lr = 1e-2, .momentum = 0.0};
    case OptimizerKind::kAdadelta: return {.lr = 1.0, .eps = 1e-6, .alpha = 0.9};
    case OptimizerKind::kAdamax:
    case OptimizerKind::kNadam: return {.lr = 2e-3};
    case OptimizerKind::kLion: return {.lr = 1e-4, .beta2 = 0.99};
    case OptimizerKind::kAdamW: return {.weight_decay = 1e-2};
    case OptimizerKind::kLars: return {.lr = 0.1};
    case OptimizerKind::kLamb: return {.eps = 1e-6, .weight_decay = 1e-2};
    case OptimizerKind::kSgd:
    case OptimizerKind::kMomentum:
    case OptimizerKind::kAdam:
    case OptimizerKind::kRadam:
    case OptimizerKind::kExternal: break;
  }
  return {};
}

template <class Visitor>
void VisitJob(Visitor& v, JobSection& s) {
  v.Begin("job");
  v.Text({"name"}, s.name);
  v.Choice({"mode"}, s.mode, {kModes, kModesLater});
  v.Integer({"steps", {}, Need::kRequired}, s.steps, {1, static_cast<std::int64_t>(kOpenEndedSteps)});
  v.Integer({"seed"}, s.seed, {});
  v.Integer({"global_batch", {}, Need::kRequired}, s.global_batch, {1, kBatchMax});
  v.Integer({"slots"}, s.slots, {0, kMembersMax});
  v.Integer({"eval_every"}, s.eval_every, {});
  v.Choice({"on_nonfinite"}, s.on_nonfinite, {kPolicies, {}});
  v.Integer({"staleness", {s.mode == Mode::kBounded, "mode = \"bounded\""}}, s.staleness, {0, std::int64_t{1} << 40});
  const bool by_slot = s.mode == Mode::kAsync || s.mode == Mode::kBounded;
  v.Choice({"acknowledge", {by_slot, "mode = \"async\" or \"bounded\""}}, s.acknowledge, {kAcknowledges, {}});
  v.Choice({"aggregation", {HasGlobalSteps(s.mode), "mode = \"sync\" or \"allreduce\""}}, s.aggregation,
           {kAggregations, {}});
  v.Later("sync_every");
  v.End();
}

template <class Visitor>
void VisitModel(Visitor& v, ModelSection& s) {
  v.Begin("model");
  v.Choice({"kind", {}, Need::kRequired}, s.kind, {kModels, kModelsLater});
  const When gpt{s.kind == ModelKind::kGpt, "kind = \"gpt\""};
  const When convnet{s.kind == ModelKind::kConvnet, "kind = \"convnet\""};
  const When resnet{s.kind == ModelKind::kResnet, "kind = \"resnet\""};
  const When layered{s.kind == ModelKind::kMlp || convnet.applies, "kind = \"mlp\" or \"convnet\""};
  v.Choice({"preset", gpt}, s.preset, {kPresets, {}});
  const GptSizes sizes = SizesOf(s.preset);
  v.Default(s.layers, sizes.layers);
  v.Default(s.heads, sizes.heads);
  v.Default(s.width, resnet.applies ? 64U : sizes.width);
  v.Default(s.context, sizes.context);
  v.Integer({"layers", gpt}, s.layers, {1, 1024});
  v.Integer({"heads", gpt}, s.heads, {1, 1024});
  v.Integer({"width", {gpt.applies || resnet.applies, "kind = \"gpt\" or \"resnet\""}}, s.width, {1, 1 << 16});
  v.Integer({"context", gpt}, s.context, {1, 1 << 20});
  v.Integer({"depth", resnet}, s.depth, {1, 1024});  // FindResnetProblem checks the exact values
  v.Integers({"channels", convnet}, s.channels, {1, 1 << 16});
  v.Integers({"hidden", layered}, s.hidden, {1, 1 << 20});
  v.Number({"dropout", {gpt.applies || layered.applies, "kind = \"gpt\", \"mlp\" or \"convnet\""}}, s.dropout,
           {0, 1, Bound::kIncluded, Bound::kExcluded});
  v.End();
}

template <class Visitor>
void VisitData(Visitor& v, DataSection& s, ModelPreset preset, When built_in) {
  v.Begin("data", built_in);
  v.Choice({"kind", {}, Need::kRequired}, s.kind, {kData, kDataLater});
  const When tokens{s.kind == DataKind::kTokens, "kind = \"tokens\""};
  const When folders{s.kind == DataKind::kText || tokens.applies, "kind = \"text\" or \"tokens\""};
  const When idx{s.kind == DataKind::kIdx, "kind = \"idx\""};
  const When csv{s.kind == DataKind::kCsv, "kind = \"csv\""};
  const When cifar10{s.kind == DataKind::kCifar10, "kind = \"cifar10\""};
  const When synthetic{s.kind == DataKind::kSynthetic, "kind = \"synthetic\""};
  const When files{!synthetic.applies, "a kind that reads files"};
  v.Text({"path", files, Need::kRequired}, s.path);
  v.Text({"labels", idx, Need::kRequired}, s.labels);
  v.Number({"validation", {!cifar10.applies, "a kind without a test set of its own"}}, s.validation,
           {0, 1, Bound::kIncluded, Bound::kExcluded});
  v.Texts({"include", folders}, s.include);
  v.Integer({"max_bytes", folders}, s.max_bytes, {});
  v.Choice({"type", tokens}, s.type, {kTokenTypes, {}});
  v.Integer({"label_column", csv}, s.label_column, {-(1 << 20), 1 << 20});
  v.Integer({"header_lines", csv}, s.header_lines, {0, 1 << 20});
  v.Default(s.scale, s.kind == DataKind::kIdx ? 255.0 : 1.0);
  v.Number({"scale", {idx.applies || csv.applies, "kind = \"idx\" or \"csv\""}}, s.scale, {1e-30, 1e30});
  v.Flag({"crop", cifar10}, s.crop);
  v.Flag({"flip", cifar10}, s.flip);
  v.Integers({"image", {csv.applies || synthetic.applies, "kind = \"csv\" or \"synthetic\""}}, s.image, {1, 1 << 20});
  v.Integer({"samples", synthetic}, s.samples, {1, std::int64_t{1} << 40});
  v.Integer({"features", {synthetic.applies && s.image.empty(), "kind = \"synthetic\" without image"}}, s.features,
            {1, 1 << 20});
  v.Integer({"classes", synthetic}, s.classes, {2, 1 << 20});
  v.Default(s.vocabulary, SizesOf(preset).vocabulary);
  v.Integer({"vocabulary",
             {synthetic.applies || tokens.applies, "kind = \"synthetic\" or \"tokens\""},
             tokens.applies && preset == ModelPreset::kNone ? Need::kRequired : Need::kOptional},
            s.vocabulary, {2, 1 << 20});
  v.End();
}

template <class Visitor>
void VisitOptimizer(Visitor& v, OptimizerSection& s) {
  v.Begin("optimizer");
  v.Choice({"kind"}, s.kind, {kOptimizers, {}});
  const auto is = [&](auto... kinds) { return ((s.kind == kinds) || ...); };
  using enum OptimizerKind;
  const bool has_betas = is(kAdam, kAdamW, kAdamax, kNadam, kRadam, kLion, kLamb);
  const When betas{has_betas, "kind = \"adam\", \"adamw\", \"adamax\", \"nadam\", \"radam\", \"lion\" or \"lamb\""};
  const When rule{!is(kExternal), "a kind that the servers run; with \"external\" it is the program's"};
  const When divides{!is(kSgd, kMomentum, kLion, kLars, kExternal),
                     "a kind other than \"sgd\", \"momentum\", \"lion\", \"lars\" and \"external\""};
  const When has_momentum{is(kMomentum, kRmsprop, kLars), "kind = \"momentum\", \"rmsprop\" or \"lars\""};
  const When momentum{is(kMomentum), "kind = \"momentum\""};
  const When rmsprop{is(kRmsprop), "kind = \"rmsprop\""};
  const When adagrad{is(kAdagrad), "kind = \"adagrad\""};
  const When either_decay{is(kNadam, kRadam), "kind = \"nadam\" or \"radam\""};
  const OptimizerDefaults defaults = DefaultsOf(s.kind);
  v.Default(s.lr, defaults.lr);
  v.Default(s.beta2, defaults.beta2);
  v.Default(s.eps, defaults.eps);
  v.Default(s.momentum, defaults.momentum);
  v.Default(s.alpha, defaults.alpha);
  v.Default(s.weight_decay, defaults.weight_decay);
  v.Number({"lr", rule}, s.lr, {0, 1e6});
  v.Pair({"betas", betas}, s.beta1, s.beta2, kBeta);
  v.Number({"eps", divides}, s.eps, {0, 1});
  v.Number({"momentum", has_momentum}, s.momentum, kBeta);
  v.Flag({"nesterov", momentum}, s.nesterov);
  v.Number({"dampening", momentum}, s.dampening, {0, 1});
  v.Number({"alpha", rmsprop}, s.alpha, kBeta);
  v.Flag({"centered", rmsprop}, s.centered);
  v.Number({"rho", {is(kAdadelta), "kind = \"adadelta\""}}, s.alpha, kBeta);
  v.Flag({"amsgrad", {is(kAdam, kAdamW), "kind = \"adam\" or \"adamw\""}}, s.amsgrad);
  v.Number({"lr_decay", adagrad}, s.adagrad.lr_decay, {0, 1e6});
  v.Number({"initial_accumulator_value", adagrad}, s.adagrad.initial_accumulator_value, {0, 1e6});
  v.Number({"momentum_decay", {is(kNadam), "kind = \"nadam\""}}, s.momentum_decay, {0, 1e6});
  v.Number({"weight_decay", rule}, s.weight_decay, {0, 1e6});
  v.Flag({"decoupled_weight_decay", either_decay}, s.decoupled_weight_decay);
  v.Flag({"maximize", rule}, s.maximize);
  v.Number({"trust_coefficient", {is(kLars), "kind = \"lars\""}}, s.trust_coefficient, {0, 1e6, Bound::kExcluded});
  v.Texts({"no_decay", rule}, s.no_decay);
  v.Number({"clip_norm", rule}, s.clip_norm, {0, 1e30});
  v.Integer({"states", {is(kExternal), "kind = \"external\""}}, s.states, {0, kExternalStatesMax});
  v.End();
}

template <class Visitor>
void VisitSchedule(Visitor& v, ScheduleSection& s) {
  v.Begin("schedule");
  v.Choice({"kind"}, s.kind, {kSchedules, {}});
  v.Integer({"warmup_steps"}, s.warmup_steps, {});
  v.Number({"min_lr", {s.kind != ScheduleKind::kConstant, "kind = \"cosine\" or \"linear\""}}, s.min_lr, {0, 1e6});
  v.End();
}

template <class Visitor>
void VisitCluster(Visitor& v, ClusterSection& s) {
  v.Begin("cluster");
  v.Integer({"servers"}, s.servers, {1, kMembersMax});
  v.Integer({"shards_per_server"}, s.shards_per_server, {1, kMembersMax});
  v.Integer({"workers"}, s.workers, {1, kMembersMax});
  v.Integer({"min_workers"}, s.min_workers, {0, kMembersMax});
  v.Process({"coordinator"}, s.coordinator);
  v.Endpoint({"listen"}, s.listen);
  v.Flag({"shared_memory"}, s.shared_memory);
  v.Text({"advertise"}, s.advertise);
  v.Later("mixed");
  v.End();
}

template <class Visitor>
void VisitWorker(Visitor& v, WorkerSection& s, When built_in, When can_recompute) {
  v.Begin("worker");
  v.Place({"device", built_in}, s.device, {kDevices, {}});
  if (built_in.applies) {
    v.Choice({"precision"}, s.precision, {kPrecisions, {}});
  } else {
    v.Choice({"precision"}, s.precision, {kClientPrecisions, {}});
  }
  v.Integer({"accumulate", built_in}, s.accumulate, {1, kBatchMax});
  v.Integer({"threads", built_in}, s.threads, {0, 1024});
  v.Flag({"recompute", can_recompute}, s.recompute);
  v.Texts({"command", {!built_in.applies, "[model] kind = \"client\""}}, s.command);
  v.End();
}

template <class Visitor>
void VisitSnapshot(Visitor& v, SnapshotSection& s) {
  v.Begin("snapshot");
  v.Integer({"every_steps"}, s.every_steps, {});
  v.Number({"every_seconds"}, s.every_seconds, {0, 1e9});
  v.Integer({"keep"}, s.keep, {2, 64});
  v.End();
}

template <class Visitor>
void VisitLimits(Visitor& v, LimitsSection& s) {
  v.Begin("limits");
  v.Number({"join"}, s.join, kSeconds);
  v.Number({"lease"}, s.lease, kSeconds);
  v.Number({"report"}, s.report, kSeconds);
  v.Number({"stall"}, s.stall, {0, 1e9});
  v.End();
}

template <class Visitor>
void VisitAllReduce(Visitor& v, AllReduceSection& s) {  // in every mode, because --resume may change the mode
  v.Begin("allreduce");
  v.Choice({"collective"}, s.collective, {kCollectives, {}});
  v.Number({"bucket_mib"}, s.bucket_mib, {0.0625, 1024});
  v.Choice({"wire"}, s.wire, {kWires, kWiresLater});
  v.Choice({"local_reduce"}, s.local_reduce, {kLocalReduces, {}});
  v.End();
}

template <class Visitor>
void VisitMetrics(Visitor& v, MetricsSection& s) {
  v.Begin("metrics");
  v.Endpoint({"listen"}, s.listen);
  v.Text({"token_file"}, s.token_file);
  v.Text({"certificate"}, s.certificate);
  v.Text({"key"}, s.key);
  v.Texts({"hosts"}, s.hosts);
  v.Flag({"tensorboard"}, s.tensorboard);
  v.End();
}

template <class Visitor>
void VisitSecurity(Visitor& v, SecuritySection& s) {
  v.Begin("security");
  v.Choice({"transport"}, s.transport, {kTransports, {}});
  v.Flag({"plaintext_collectives"}, s.plaintext_collectives);
  v.End();
}

template <class Visitor>
void VisitJobConfig(Visitor& v, EditableJobConfig& config) {
  VisitJob(v, config.job);
  VisitModel(v, config.model);
  const When built_in{config.model.built_in(), "a [model] kind other than \"client\""};
  VisitData(v, config.data, config.model.preset, built_in);
  VisitOptimizer(v, config.optimizer);
  VisitSchedule(v, config.schedule);
  VisitCluster(v, config.cluster);
  VisitWorker(v, config.worker, built_in, {config.model.can_recompute(), "[model] kind = \"gpt\" or \"resnet\""});
  VisitSnapshot(v, config.snapshot);
  VisitLimits(v, config.limits);
  VisitAllReduce(v, config.allreduce);
  VisitMetrics(v, config.metrics);
  VisitSecurity(v, config.security);
}

}  // namespace capstan::job_config
