// SampleText: generates text with a trained byte-level gpt.
//
// Kind:   a pure function of its arguments; the random numbers follow from the seed.
// Fails:  kInvalid: not a gpt on bytes, or a wrong number of weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::train {

struct SampleTextOptions {
  std::size_t bytes = 400;  // bytes to generate
  std::uint64_t seed = 1;
  double temperature = 0.8;  // logits are divided by it
};

// `weights`: all tensors of the model in catalog order, without gaps. Returns the text after the prompt.
Result<std::string> SampleText(const JobConfig& config, std::span<const float> weights, std::string_view prompt,
                               const SampleTextOptions& options);

}  // namespace capstan::train
