// Runs one optimizer on numbers from stdin and writes the weights after each update to stdout. optimizer_torch_test.py
// compares them with PyTorch's.
//
// in:  a line "kind count updates" and the job's options as words "key=value"; a line with the options of each of two
//      groups; for each update a line "lr of group 1, lr of group 2, clip factor, clip value"; then raw floats: `count`
//      weights, and `count` gradients for each update. The first half of the weights is in group 1.
// out: raw floats: `count` weights for each update.
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "common/config/job_config.h"
#include "tests/update/block_fixture.h"

namespace capstan::server {
namespace {

using Options = std::map<std::string, double>;

Options ReadOptions(std::istream& line) {
  Options options;
  for (std::string word; line >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) options[word.substr(0, equals)] = std::stod(word.substr(equals + 1));
  }
  return options;
}

std::istringstream ReadLine() {
  std::string line;
  std::getline(std::cin, line);
  return std::istringstream(line);
}

bool KindOf(const std::string& word, OptimizerKind* kind) {
  for (int value = 0; !WordOf(static_cast<OptimizerKind>(value)).empty(); ++value) {
    *kind = static_cast<OptimizerKind>(value);
    if (WordOf(*kind) == word) return true;
  }
  return false;
}

HyperParameters GroupOf(const Options& options) {
  const auto value = [&](const char* key) {
    const auto found = options.find(key);
    return found == options.end() ? 0.0 : found->second;
  };
  return {.learning_rate = 0.0,
          .momentum = value("momentum"),
          .beta1 = value("beta1"),
          .beta2 = value("beta2"),
          .eps = value("eps"),
          .weight_decay = value("weight_decay"),
          .nesterov = value("nesterov") != 0,
          .dampening = value("dampening"),
          .alpha = value("alpha"),
          .lr_decay = value("lr_decay"),
          .initial_accumulator_value = value("initial_accumulator_value"),
          .momentum_decay = value("momentum_decay"),
          .maximize = value("maximize") != 0,
          .decoupled_weight_decay = value("decoupled_weight_decay") != 0};
}

bool Read(const Floats& floats) {
  const auto bytes = static_cast<std::streamsize>(floats.size() * sizeof(float));
  return static_cast<bool>(std::cin.read(reinterpret_cast<char*>(floats.data()), bytes));
}

struct Update {
  double rates[2] = {};
  UpdateScalars scalars;
};

int Trace() {
  std::istringstream first = ReadLine();
  std::string word;
  std::uint32_t count = 0, updates = 0;
  first >> word >> count >> updates;
  OptimizerRule job;
  if (!first || !KindOf(word, &job.kind)) return 2;
  const Options of_job = ReadOptions(first);
  job.amsgrad = of_job.contains("amsgrad");
  job.centered = of_job.contains("centered");
  job.keeps_momentum = of_job.contains("keeps_momentum");
  std::vector<HyperParameters> groups;
  for (int group = 0; group < 2; ++group) {
    std::istringstream line = ReadLine();
    groups.push_back(GroupOf(ReadOptions(line)));
  }
  std::vector<Update> all(updates);
  for (std::uint32_t i = 0; i < updates; ++i) {
    std::istringstream line = ReadLine();
    all[i].scalars.step = i + 1;
    line >> all[i].rates[0] >> all[i].rates[1] >> all[i].scalars.clip >> all[i].scalars.clip_value;
    if (!line) return 2;
  }
  const std::uint32_t half = count / 2;
  const SegmentRange segments[] = {{0, half, true, 0}, {half, count - half, true, 1}};
  BlockArrays block(count, std::size(segments));
  Floats gradient(count);
  if (!Read(block.weights)) return 2;
  for (const Update& update : all) {
    if (!Read(gradient)) return 2;
    for (int group = 0; group < 2; ++group) groups[group].learning_rate = update.rates[group];
    const StagedInput input{{0, 1}, 1, reinterpret_cast<const std::byte*>(gradient.data())};
    ReduceAndUpdate(MakeGroupRules(job, 0.0F, groups), update.scalars, {&input, 1}, ReductionTree(1), segments,
                    block.in(), block.out(), block.squares);
    std::cout.write(reinterpret_cast<const char*>(block.weights.data()),
                    static_cast<std::streamsize>(count * sizeof(float)));
  }
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace capstan::server

int main() { return capstan::server::Trace(); }
