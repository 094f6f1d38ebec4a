// FollowedJob: what a reader knows about its job from the views that the coordinator sends.
//
// Kind:   part of ReaderCore; a pure core.
// Fails:  Take: kRefused when another job runs at the coordinator's address, kInvalid for a job file or a catalog that
//         cannot be read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "common/wire/messages/view.h"
#include "worker/client/readable_versions.h"

namespace capstan::client {

class FollowedJob {
 public:
  // `address`: the coordinator's address, for error messages.
  FollowedJob(std::string address, std::uint32_t block_elements)
      : address_(std::move(address)), block_elements_(block_elements) {}

  // Takes a view. Returns false if it adds nothing: it is malformed or older than the newest, or no view has brought
  // the job file yet.
  Result<bool> Take(const View& view, Instant now);
  // Call when a reading has shown that this is the job's last version.
  void NoteLast(Step step) { last_ = step; }

  // The newest view; null before the first.
  const View* view() const { return view_ ? &*view_ : nullptr; }
  bool done() const { return view_ && view_->phase == JobPhase::kDone; }
  bool running() const { return view_ && view_->phase == JobPhase::kRunning; }
  // When a view first reported the current readable version in the current generation.
  Instant step_since() const { return step_since_; }
  // The job's last version, once it is known.
  const std::optional<Step>& last() const { return last_; }

  // The following have default values before the job file is known.
  JobId id() const { return id_; }
  const std::string& file() const { return file_; }
  std::uint64_t steps() const { return steps_; }
  const ReadableVersions& versions() const { return versions_; }
  const std::vector<std::string>& state_names() const { return state_names_; }
  // How long the coordinator may be silent: limits.stall, and at most two leases once the job is done, because the
  // coordinator ends then. nullopt: the job has no such limit.
  std::optional<Instant> silence_limit() const {
    return done() ? std::min(silence_limit_.value_or(Instant::max()), 2 * lease_) : silence_limit_;
  }
  // The job's tensors; null before a view has named them.
  const Catalog* catalog() const { return catalog_.get(); }

 private:
  Status TakeFacts(const View& view);
  void SeeEnd(const View& view);

  const std::string address_;
  const std::uint32_t block_elements_;
  std::optional<View> view_;
  Instant step_since_{};
  std::optional<Step> last_;
  JobId id_;
  std::string file_;
  std::uint64_t steps_ = 0;
  ReadableVersions versions_;
  std::vector<std::string> state_names_;
  std::optional<Instant> silence_limit_;
  Instant lease_{};
  std::unique_ptr<Catalog> catalog_;
};

}  // namespace capstan::client
