#include "worker/libtorch/optimizer_rules.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstddef>
#include <sstream>
#include <tuple>
#include <typeinfo>

#include "common/config/job/optimizer_section.h"

namespace capstan::libtorch {

namespace {

namespace optim = ::torch::optim;

struct Known {
  const std::type_info& type;
  const char* name;
  const char* kind;  // in the job file
  bool (*fits)(OptimizerKind kind);
};

const Known* Find(const optim::Optimizer& optimizer) {
  static const Known kKnown[] = {
      {typeid(optim::SGD), "SGD", "momentum",
       [](OptimizerKind kind) { return kind == OptimizerKind::kMomentum || kind == OptimizerKind::kSgd; }},
      {typeid(optim::Adam), "Adam", "adam", [](OptimizerKind kind) { return kind == OptimizerKind::kAdam; }},
      {typeid(optim::AdamW), "AdamW", "adamw", [](OptimizerKind kind) { return kind == OptimizerKind::kAdamW; }},
      {typeid(optim::Adagrad), "Adagrad", "adagrad",
       [](OptimizerKind kind) { return kind == OptimizerKind::kAdagrad; }},
      {typeid(optim::RMSprop), "RMSprop", "rmsprop",
       [](OptimizerKind kind) { return kind == OptimizerKind::kRmsprop; }},
  };
  for (const Known& known : kKnown) {
    if (typeid(optimizer) == known.type) return &known;
  }
  return nullptr;
}

HyperParameters Numbers(const optim::SGDOptions& options) {
  HyperParameters numbers;
  numbers.learning_rate = options.lr();
  numbers.momentum = options.momentum();
  numbers.weight_decay = options.weight_decay();
  numbers.nesterov = options.nesterov();
  numbers.dampening = options.dampening();
  return numbers;
}

template <class AdamOptions>
HyperParameters NumbersOfAdam(const AdamOptions& options) {
  HyperParameters numbers;
  numbers.learning_rate = options.lr();
  std::tie(numbers.beta1, numbers.beta2) = options.betas();
  numbers.eps = options.eps();
  numbers.weight_decay = options.weight_decay();
  return numbers;
}

HyperParameters Numbers(const optim::AdagradOptions& options) {
  HyperParameters numbers;
  numbers.learning_rate = options.lr();
  numbers.eps = options.eps();
  numbers.weight_decay = options.weight_decay();
  numbers.lr_decay = options.lr_decay();
  numbers.initial_accumulator_value = options.initial_accumulator_value();
  return numbers;
}

HyperParameters Numbers(const optim::RMSpropOptions& options) {
  HyperParameters numbers;
  numbers.learning_rate = options.lr();
  numbers.eps = options.eps();
  numbers.weight_decay = options.weight_decay();
  numbers.alpha = options.alpha();
  numbers.momentum = options.momentum();
  return numbers;
}

HyperParameters NumbersOf(const optim::OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const optim::SGDOptions*>(&options)) return Numbers(*sgd);
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options)) return NumbersOfAdam(*adam);
  if (const auto* adamw = dynamic_cast<const optim::AdamWOptions*>(&options)) return NumbersOfAdam(*adamw);
  if (const auto* adagrad = dynamic_cast<const optim::AdagradOptions*>(&options)) return Numbers(*adagrad);
  return Numbers(dynamic_cast<const optim::RMSpropOptions&>(options));
}

// An option that decides which arrays the servers keep: the job file has it, for all groups.
Status CheckFlag(const std::string& where, const char* option, bool own, bool jobs) {
  if (own == jobs) return {};
  const std::string word = own ? "true" : "false";
  return Invalid(where + " has " + option + "=" + word + ", and the job's is optimizer." + option + " = " +
                 (jobs ? "true" : "false") + ", for all groups; set it to " + word + " in the job file");
}

Status CheckGroup(const std::string& where, const optim::OptimizerOptions& options, const optim::Optimizer& optimizer,
                  const OptimizerSection& job) {
  if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options)) {
    return CheckFlag(where, "amsgrad", adam->amsgrad(), job.amsgrad);
  }
  if (const auto* adamw = dynamic_cast<const optim::AdamWOptions*>(&options)) {
    return CheckFlag(where, "amsgrad", adamw->amsgrad(), job.amsgrad);
  }
  const HyperParameters numbers = NumbersOf(options);
  std::ostringstream momentum;
  momentum << numbers.momentum;
  if (job.kind == OptimizerKind::kSgd && numbers.momentum != 0) {
    return Invalid(where + " has momentum=" + momentum.str() +
                   ", and the job's is optimizer.kind = \"sgd\"; set it to \"momentum\" in the job file");
  }
  if (const auto* rmsprop = dynamic_cast<const optim::RMSpropOptions*>(&options)) {
    if (numbers.momentum != 0 && job.momentum == 0) {
      return Invalid(where + " has momentum=" + momentum.str() +
                     ", and the servers keep no momentum in this job; set " + "optimizer.momentum = " + momentum.str() +
                     " in the job file");
    }
    return CheckFlag(where, "centered", rmsprop->centered(), job.centered);
  }
  if (dynamic_cast<const optim::AdagradOptions*>(&options) != nullptr) {
    const double given = NumbersOf(optimizer.defaults()).initial_accumulator_value;
    if (given != numbers.initial_accumulator_value) {
      return Unsupported(where + " has an initial_accumulator_value of its own, and libtorch takes that of the " +
                         "optimizer for all groups: set it in AdagradOptions of the optimizer only");
    }
  }
  return {};
}

Status CheckIsFresh(const char* name, const optim::Optimizer& optimizer) {
  bool stepped = false;
  for (const auto& [key, state] : optimizer.state()) {
    const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(state.get());
    stepped |= adagrad == nullptr || adagrad->step() > 0;  // Adagrad's constructor makes states
  }
  if (!stepped) return {};
  return Unsupported(std::string(name) +
                     " has taken steps already, and its state would be lost: give Prepare() a fresh one; a job goes on "
                     "from its own snapshots, with capstan launch --resume");
}

}  // namespace

Status CheckOptimizer(const optim::Optimizer& optimizer, const JobConfig& job) {
  const Known* const known = Find(optimizer);
  if (known == nullptr) {
    return Unsupported(
        "the optimizer's class is none that the servers run for libtorch: use torch::optim's SGD, Adam, AdamW, Adagrad "
        "or "
        "RMSprop");
  }
  if (job.optimizer.kind == OptimizerKind::kExternal) {
    return Unsupported(
        "optimizer.kind = \"external\" leaves updates to the workers, which a program of libtorch's cannot do; set it "
        "to \"" +
        std::string(known->kind) + "\" in the job file");
  }
  if (!known->fits(job.optimizer.kind)) {
    return Invalid(std::string("the program's optimizer is ") + known->name + ", the job's is optimizer.kind = \"" +
                   std::string(WordOf(job.optimizer.kind)) + "\"; set it to \"" + known->kind + "\" in the job file");
  }
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    CAPSTAN_RETURN_IF_ERROR(CheckGroup(std::string(known->name) + ", group " + std::to_string(group),
                                       optimizer.param_groups()[group].options(), optimizer, job.optimizer));
  }
  return CheckIsFresh(known->name, optimizer);
}

std::vector<HyperParameters> HyperParametersOf(const optim::Optimizer& optimizer) {
  std::vector<HyperParameters> groups;
  for (const auto& group : optimizer.param_groups()) groups.push_back(NumbersOf(group.options()));
  return groups;
}

std::string ToText(const HyperParameters& numbers) {
  std::ostringstream text;
  text.precision(9);
  text << "lr=" << numbers.learning_rate;
  if (numbers.momentum != 0) text << " momentum=" << numbers.momentum;
  if (numbers.beta1 != 0) text << " betas=(" << numbers.beta1 << ", " << numbers.beta2 << ")";
  if (numbers.weight_decay != 0) text << " weight_decay=" << numbers.weight_decay;
  return text.str();
}

}  // namespace capstan::libtorch
