#include "worker/libtorch/last_version.h"

#include <string>
#include <utility>

namespace capstan::libtorch {

namespace {

constexpr int kAsksPerLease = 4;

Status TooLate(const std::string& why) {
  return Unreachable(
      "the job is done, and its last weights could not be read before its servers ended: the model has older ones. "
      "final.safetensors in the run directory has the last" +
      why);
}

}  // namespace

Result<LastVersion> LastVersion::Connect(const ClientOptions& client, std::uint64_t steps,
                                         std::chrono::duration<double> lease) {
  CAPSTAN_ASSIGN_OR_RETURN(auto reader, Reader::Connect({.coordinator = client.coordinator,
                                                         .name = client.worker,
                                                         .join_deadline = client.join_deadline,
                                                         .key_file = client.key_file}));
  LastVersion last(std::move(reader), steps, std::chrono::duration_cast<Clock::duration>(lease / kAsksPerLease));
  last.Ask();
  return last;
}

void LastVersion::GoOnAsking() {
  if (reader_ != nullptr && Clock::now() >= next()) Ask();
}

void LastVersion::AskFor(std::uint64_t step) {
  if (step + 1 < steps_) return GoOnAsking();
  Ask();
}

void LastVersion::Ask() {
  asked_ = Clock::now();
  // If the coordinator cannot be reached, the client reports it.
  [[maybe_unused]] const auto progress = reader_->progress(asked_ + every_);
}

Result<PulledVersion> LastVersion::Take() {
  PullOptions wish;
  wish.newer_than = steps_ - 1;
  wish.optimizer_state = true;
  auto version = reader_->Pull(wish, Reader::kNoDeadline);
  if (!version.ok()) return TooLate(": " + version.status().message());
  if (!version.value()) return TooLate("");
  return *version.value();
}

}  // namespace capstan::libtorch
