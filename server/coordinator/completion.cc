#include "server/coordinator/completion.h"

#include <chrono>
#include <string>
#include <utility>

#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/final_weights.h"
#include "server/coordinator/run_files.h"

namespace capstan::server {

Completion::Completion(Options options) : options_(std::move(options)) {}
Completion::~Completion() = default;

bool Completion::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  return final_weights_ && final_weights_->Handle(from, message, now, out);
}

std::optional<Status> Completion::Advance(Instant now, Outbox* out) {
  if (options_.core->concluded()) {
    return final_weights_ && !WaitsForReaders(now) ? std::optional(Status()) : std::nullopt;
  }
  if (!final_weights_) {
    if (Status status = Begin(); !status.ok()) return status;
  }
  final_weights_->Tick(now, out);
  if (!final_weights_->outcome() || !options_.core->SnapshotsSettled()) return std::nullopt;
  const Status outcome = *final_weights_->outcome();
  if (outcome.code() == Code::kBusy) {  // the disk is full again: wait for space once more
    final_weights_.reset();
    return std::nullopt;
  }
  if (!outcome.ok()) return outcome;
  options_.core->Conclude(out);  // before the wait: the job is done even if a shard is lost now
  return WaitsForReaders(now) ? std::nullopt : std::optional(outcome);
}

void Completion::Reset() {
  final_weights_.reset();
  wait_.reset();
}

// Creates the file with its full size on disk, before any weights are read into it.
Status Completion::Begin() {
  return options_.files->CreateFinalWeights([this](const std::string& path) {
    auto weights = FinalWeights::Create(options_.core->ReaderView(), options_.core->catalog(), path, options_.limits,
                                        options_.transport, options_.files->JobTime());
    if (weights.ok()) final_weights_ = std::move(weights).value();
    return weights.status();
  });
}

// Whether readers may still be fetching the last version from the shards.
bool Completion::WaitsForReaders(Instant now) {
  const Coordinator& core = *options_.core;
  const std::size_t readers = core.followers().size();
  if (readers == 0 || options_.stopped()) return false;
  if (!wait_) {
    wait_.emplace(core.lease(), now, core.followers().arrivals());
    if (options_.on_notice) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(core.lease()).count();
      options_.on_notice({Severity::kInfo, "the job is done; waiting up to " + std::to_string(seconds) + " s for " +
                                               Count(readers, "reader") + " to fetch the final weights"});
    }
  }
  return wait_->GoesOn(now, core.followers().arrivals());
}

}  // namespace capstan::server
