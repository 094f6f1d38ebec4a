// BarrierWait: whether this session waits in a barrier of the job, and for which members.
//
// Kind:   a value; part of Session's core.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/messages/view.h"
#include "worker/session/session_events.h"

namespace capstan::session {

class BarrierWait {
 public:
  bool waits() const { return waits_; }
  // Returns the number of the barrier that this session waits in, for its Heartbeats. 0: it waits in none, or no view
  // has come since Begin().
  std::uint64_t number() const { return waits_ ? number_ : 0; }
  // Returns the coordinator's text that names the members for which the barrier still waits.
  const std::string& missing() const { return missing_; }

  void Begin() { *this = BarrierWait(true); }

  struct News {
    std::optional<SessionEvent> event;
    bool numbered = false;  // the barrier's number is known now: a Heartbeat should report it
  };
  // Takes a view from the coordinator. Call it only while waits() is true.
  News Follow(const View& view) {
    if (number_ == 0) {
      number_ = view.barrier + 1;
      return {{}, true};
    }
    if (view.barrier >= number_) {
      waits_ = false;
      return {BarrierPassed{}, false};
    }
    if (view.message == missing_) return {};
    missing_ = view.message;
    return {BarrierWaits{missing_}, false};
  }

  BarrierWait() = default;

 private:
  explicit BarrierWait(bool waits) : waits_(waits) {}

  bool waits_ = false;
  std::uint64_t number_ = 0;  // 0: no view has come yet
  std::string missing_;
};

}  // namespace capstan::session
