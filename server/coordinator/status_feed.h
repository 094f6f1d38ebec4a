// StatusFeed: hands the state of a job, as a JSON object for the status page, from the loop's thread to others.
//
// Kind:   part of CoordinatorLoop; its thread publishes, and any thread may call Read.
// Limits: a new text every kEvery, and at once when the job's state changes.
#pragma once

#include <chrono>
#include <string>

#include "common/base/mailbox.h"
#include "common/base/types.h"
#include "server/coordinator/coordinator_options.h"

namespace capstan::server {

class Coordinator;

class StatusFeed {
 public:
  static constexpr Instant kEvery = std::chrono::milliseconds(500);

  void Publish(const Coordinator& core, Instant now);
  // Publishes if kEvery has passed, or if the job's state has changed.
  void Look(const Coordinator& core, Instant now);
  std::string Read() const { return text_.Read(); }

 private:
  Latest<std::string> text_;
  CoordinatorState published_ = CoordinatorState::kCollecting;  // the job's state when Look last published
  Instant next_{};
};

}  // namespace capstan::server
