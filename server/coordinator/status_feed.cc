#include "server/coordinator/status_feed.h"

#include "server/coordinator/coordinator.h"

namespace capstan::server {

void StatusFeed::Publish(const Coordinator& core, Instant now) { text_.Publish(core.StatusJson(now)); }

void StatusFeed::Look(const Coordinator& core, Instant now) {
  if (now < next_ && core.state() == published_) return;
  next_ = now + kEvery;
  published_ = core.state();
  Publish(core, now);
}

}  // namespace capstan::server
