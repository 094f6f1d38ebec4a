#include "common/data/hyper_parameters.h"

#include <bit>
#include <cmath>
#include <cstdio>

#include "common/base/hash.h"

namespace capstan {

namespace {

constexpr double kNoLimit = HUGE_VAL;

struct Field {
  const char* name;
  double HyperParameters::*value;
  double below;  // exclusive upper bound
};
constexpr Field kFields[] = {
    {"learning_rate", &HyperParameters::learning_rate, kNoLimit},
    {"momentum", &HyperParameters::momentum, kNoLimit},
    {"beta1", &HyperParameters::beta1, 1.0},
    {"beta2", &HyperParameters::beta2, 1.0},
    {"eps", &HyperParameters::eps, kNoLimit},
    {"weight_decay", &HyperParameters::weight_decay, kNoLimit},
    {"dampening", &HyperParameters::dampening, kNoLimit},
    {"alpha", &HyperParameters::alpha, 1.0},
    {"lr_decay", &HyperParameters::lr_decay, kNoLimit},
    {"initial_accumulator_value", &HyperParameters::initial_accumulator_value, kNoLimit},
    {"momentum_decay", &HyperParameters::momentum_decay, kNoLimit},
};

struct Flag {
  const char* name;
  bool HyperParameters::*value;
};
constexpr Flag kFlags[] = {
    {"nesterov", &HyperParameters::nesterov},
    {"maximize", &HyperParameters::maximize},
    {"decoupled_weight_decay", &HyperParameters::decoupled_weight_decay},
};

const char* TextOf(bool value) { return value ? "true" : "false"; }

// Writes a value with 17 significant digits, so that different values have different texts.
std::string TextOf(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

Status CheckHyperParameters(const std::vector<HyperParameters>& groups, std::uint32_t group_count) {
  if (groups.size() != group_count) {
    if (group_count == 0) {
      return Invalid("hyper-parameters of " + std::to_string(groups.size()) +
                     " groups, and no tensor is declared with a group: the job file owns them");
    }
    return Invalid("hyper-parameters of " + std::to_string(groups.size()) +
                   " groups, and the tensors are declared with " + std::to_string(group_count) +
                   "; there is one entry for each");
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const Field& field : kFields) {
      const double value = groups[i].*field.value;
      // -0 is refused too: it equals 0 but may give other bits.
      if (!std::signbit(value) && value < field.below) continue;
      const std::string range = field.below == kNoLimit ? "a finite number of at least 0" : "in [0, 1)";
      return Invalid("hyper-parameters of group " + std::to_string(i + 1) + ": " + field.name + " is " + TextOf(value) +
                     "; it must be " + range);
    }
  }
  return {};
}

Status CheckNoMomentum(const std::vector<HyperParameters>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].momentum == 0.0) continue;
    return Invalid("hyper-parameters of group " + std::to_string(i + 1) + ": momentum is " +
                   TextOf(groups[i].momentum) + ", and the servers keep no momentum in this job; set " +
                   "optimizer.momentum = " + TextOf(groups[i].momentum) +
                   " in the job file and, in place of \"sgd\", optimizer.kind = \"momentum\"");
  }
  return {};
}

HyperDifference FindDifference(const std::vector<HyperParameters>& known, const std::vector<HyperParameters>& other) {
  for (std::size_t i = 0; i < known.size() && i < other.size(); ++i) {
    const auto group = static_cast<std::uint32_t>(i + 1);
    for (const Field& field : kFields) {
      const double a = known[i].*field.value, b = other[i].*field.value;
      if (a != b) return {group, field.name, TextOf(a), TextOf(b)};
    }
    for (const Flag& flag : kFlags) {
      const bool a = known[i].*flag.value, b = other[i].*flag.value;
      if (a != b) return {group, flag.name, TextOf(a), TextOf(b)};
    }
  }
  return {};
}

std::uint64_t HashOf(const std::vector<HyperParameters>& groups) {
  Hasher hasher;
  for (const HyperParameters& group : groups) {
    for (const Field& field : kFields) hasher.Add(std::bit_cast<std::uint64_t>(group.*field.value));
    for (const Flag& flag : kFlags) hasher.Add(group.*flag.value ? 1 : 0);
  }
  return hasher.Digest();
}

}  // namespace capstan
