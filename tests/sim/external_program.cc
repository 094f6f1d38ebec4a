#include "tests/sim/external_program.h"

#include <cstring>
#include <utility>

#include "common/wire/messages/pull.h"

namespace capstan::sim {

using session::VersionSource;

ExternalProgram::ExternalProgram(const Catalog& catalog, std::uint32_t arrays, Flaw flaw, Made made)
    : catalog_(catalog),
      flaw_(flaw),
      made_(std::move(made)),
      kept_(catalog.element_count(), arrays),
      pulled_(catalog.element_count()),
      weights_(catalog.element_count()),
      momentum_(catalog.element_count()) {}

void ExternalProgram::TakeBlock(const session::Session::WeightsArrived& arrived) {
  const bool is_state = arrived.array != 0 && arrived.array != kMeanGradient;
  float* const array = is_state ? kept_.places().at(arrived.array - 1) : pulled_.data();
  std::memcpy(array + catalog_.blocks()[arrived.block].flat_offset, arrived.payload.data, arrived.payload.size);
  if (arrived.block == 0 && arrived.array == 0) head_ = arrived.program_state;
}

std::string ExternalProgram::MakeVersion(const session::RoundWork& work) {
  const bool steps = work.source == VersionSource::kGradient ||
                     (flaw_ == Flaw::kSkippedStepMade && work.source == VersionSource::kSkipped);
  if (work.source == VersionSource::kWhole) {
    if (const Status status = kept_.Take(pulled_.data(), head_); !status.ok()) return status.message();
    weights_ = pulled_;
    momentum_.assign(momentum_.size(), 0.0F);
    steps_ = 0;
    const std::string& state = kept_.state();
    if (!state.empty()) {
      std::memcpy(&steps_, state.data(), sizeof steps_);
      std::memcpy(momentum_.data(), state.data() + sizeof steps_, momentum_.size() * sizeof(float));
    }
  } else if (steps) {
    Step();
  }
  made_(Version{work.step.value}, weights_, State());
  return "";
}

void ExternalProgram::Step() {
  const float rate = 0.1F / static_cast<float>(1 + ++steps_);
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    momentum_[i] = 0.5F * momentum_[i] + pulled_[i];
    weights_[i] -= rate * momentum_[i];
  }
}

std::string ExternalProgram::State() const {
  std::string state(reinterpret_cast<const char*>(&steps_), sizeof steps_);
  return state.append(reinterpret_cast<const char*>(momentum_.data()), momentum_.size() * sizeof(float));
}

}  // namespace capstan::sim
