// Runs one optimizer on numbers from stdin and writes the weights after each update to stdout. optimizer_torch_test.py
// compares them with PyTorch's.
//
// in:  a line "kind lr momentum nesterov beta1 beta2 eps weight_decay count updates", then raw floats: `count` weights,
//      and `count` gradients for each update.
// out: raw floats: `count` weights for each update.
#include <iostream>
#include <string>

#include "tests/update/block_fixture.h"

namespace capstan::server {
namespace {

bool KindOf(const std::string& word, OptimizerKind* kind) {
  constexpr std::pair<const char*, OptimizerKind> kWords[] = {{"sgd", OptimizerKind::kSgd},
                                                              {"momentum", OptimizerKind::kMomentum},
                                                              {"adam", OptimizerKind::kAdam},
                                                              {"adamw", OptimizerKind::kAdamW},
                                                              {"adagrad", OptimizerKind::kAdagrad}};
  for (const auto& [name, value] : kWords) {
    if (word == name) {
      *kind = value;
      return true;
    }
  }
  return false;
}

bool Read(const Floats& floats) {
  const auto bytes = static_cast<std::streamsize>(floats.size() * sizeof(float));
  return static_cast<bool>(std::cin.read(reinterpret_cast<char*>(floats.data()), bytes));
}

int Trace() {
  std::string word;
  OptimizerRule rule;
  float lr = 0.0F;
  int nesterov = 0;
  std::uint32_t count = 0, updates = 0;
  std::cin >> word >> lr >> rule.momentum >> nesterov >> rule.beta1 >> rule.beta2 >> rule.eps >> rule.weight_decay >>
      count >> updates;
  if (!std::cin || !KindOf(word, &rule.kind) || std::cin.get() != '\n') return 2;
  rule.nesterov = nesterov != 0;
  BlockArrays block(count, 1);
  Floats gradient(count);
  const SegmentRange segment{0, count, true};
  const GroupRule group{rule, static_cast<double>(lr)};
  if (!Read(block.weights)) return 2;
  for (std::uint64_t step = 1; step <= updates; ++step) {
    if (!Read(gradient)) return 2;
    const StagedInput input{{0, 1}, 1, reinterpret_cast<const std::byte*>(gradient.data())};
    ReduceAndUpdate({&group, 1}, {.step = step}, {&input, 1}, ReductionTree(1), {&segment, 1}, block.in(), block.out(),
                    block.squares);
    std::cout.write(reinterpret_cast<const char*>(block.weights.data()),
                    static_cast<std::streamsize>(count * sizeof(float)));
  }
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace capstan::server

int main() { return capstan::server::Trace(); }
