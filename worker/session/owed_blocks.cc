#include "worker/session/owed_blocks.h"

namespace capstan::session {

bool OwedBlocks::Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks, Instant now, LinePace* line) {
  const auto owed = owed_.find(shard);
  if (owed == owed_.end()) return false;
  bool news = false;
  for (BlockIndex block : blocks) {
    news = owed->second.blocks.erase(block) > 0 || news;
    const auto sent = owed->second.sent.find(block);
    if (sent == owed->second.sent.end()) continue;
    line->Answered(sent->second, now);
    owed->second.sent.erase(sent);
  }
  if (owed->second.blocks.empty()) owed_.erase(owed);
  return news;
}

void OwedBlocks::Lost(ShardIndex shard, std::uint64_t question, LinePace* line) {
  const auto owed = owed_.find(shard);
  if (owed == owed_.end()) return;
  std::erase_if(owed->second.sent, [&](const auto& sent) {
    const bool lost = sent.second.number < question;
    if (lost) line->Dropped(sent.second);
    return lost;
  });
}

}  // namespace capstan::session
