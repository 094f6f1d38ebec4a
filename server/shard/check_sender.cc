#include "server/shard/check_sender.h"

#include <string>

#include "server/shard/shard_context.h"

namespace capstan::server {

bool CheckSession(const ShardContext& shard, PeerId from, SessionId session, Outbox* out) {
  if (shard.sessions.Find(session) != nullptr) return true;
  shard.metrics->unknown_sessions.Add(1);
  shard.RefuseStranger(from, Code::kBusy, "this shard has not been told of your session", out);
  return false;
}

bool CheckFence(const ShardContext& shard, const Addressed& message, Outbox* out) {
  const bool is_present = message.generation == shard.generation && message.incarnation == shard.options.incarnation;
  if (message.serving && is_present) return true;
  shard.metrics->pushes_stale.Add(1);
  if (shard.sessions.Find(message.session) == nullptr) {
    shard.RefuseStranger(message.from, Code::kStale, "this is not for what the shard serves now; ask the coordinator",
                         out);
    return false;
  }
  const bool is_newer = !message.serving || message.generation > shard.generation;
  shard.Refuse(message.from, is_newer ? Code::kBusy : Code::kStale,
               shard.name() + " serves generation " + std::to_string(shard.generation.value), out);
  return false;
}

}  // namespace capstan::server
