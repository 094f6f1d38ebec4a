#include "server/shard/check_message.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/data/hyper_parameters.h"
#include "common/data/reduction_tree.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "server/shard/pull_queue.h"
#include "server/shard/shard_context.h"

namespace capstan::server {

Status CheckPush(const ShardContext& shard, const Push& push, const Slice& payload) {
  const auto index = shard.index_of.find(push.block);
  if (index == shard.index_of.end()) {
    return Invalid("block " + std::to_string(push.block) + " is not on " + shard.name());
  }
  if (const ReductionTree tree = shard.tree(); !tree.Has(push.node)) {
    return Invalid("[" + std::to_string(push.node.begin) + ", " + std::to_string(push.node.end) +
                   ") is not a node of the tree over " + std::to_string(tree.slots()) + " slots" +
                   (AddsGradients(tree.aggregation()) ? "" : " or is a sum, and here each slot is pushed by itself"));
  }
  CAPSTAN_RETURN_IF_ERROR(CheckHyperParameters(push.hyper, shard.catalog->group_count()));
  const OptimizerRule& rule = shard.options.job.optimizer;
  if (rule.kind == OptimizerKind::kSgd || (rule.kind == OptimizerKind::kRmsprop && !rule.keeps_momentum)) {
    CAPSTAN_RETURN_IF_ERROR(CheckNoMomentum(push.hyper));
  }
  if (push.samples > kSamplesPerPushMax * (push.node.end - push.node.begin)) {
    return Invalid("a push of " + std::to_string(push.samples) + " samples is above the limit");
  }
  if (!std::isnormal(push.loss_scale) || push.loss_scale < 0) {
    return Invalid("a push of loss scale " + std::to_string(push.loss_scale) + "; it is a number above 0");
  }
  const Encoding encoding = push.node.IsLeaf() ? shard.store->encoding(index->second) : Encoding::kFp32;
  if (push.samples != 0 && push.encoding != encoding) {
    return Invalid("block " + std::to_string(push.block) + " takes " + NameOf(encoding) + " of this node, not " +
                   NameOf(push.encoding));
  }
  const std::size_t wanted = push.samples == 0 ? 0 : shard.store->count(index->second) * BytesPerNumber(encoding);
  if (payload.size != wanted) {
    return Invalid("block " + std::to_string(push.block) + " takes " + std::to_string(wanted) + " bytes, not " +
                   std::to_string(payload.size));
  }
  const bool is_checked_later = !payload.owner;
  if (push.samples != 0 && !is_checked_later && Hash64(payload.bytes()) != push.payload_hash) return DamagedPush(push);
  return {};
}

Status DamagedPush(const Push& push) {
  return Corrupt("block " + std::to_string(push.block) + ": the payload does not match its hash");
}

PullFault CheckPull(const ShardContext& shard, const Pull& pull) {
  if (pull.blocks.size() > PullQueue::kBlocksMax || pull.speculative.size() > PullQueue::kSpeculativeNamedMax) {
    return {Invalid("a pull of " + std::to_string(pull.blocks.size()) + " blocks and " +
                    std::to_string(pull.speculative.size()) + " ahead of their version; at most " +
                    std::to_string(PullQueue::kBlocksMax) + " and " + std::to_string(PullQueue::kSpeculativeNamedMax) +
                    " go into one")};
  }
  for (const std::vector<BlockIndex>* blocks : {&pull.blocks, &pull.speculative}) {
    std::set<BlockIndex> named;
    for (BlockIndex block : *blocks) {
      if (!shard.index_of.contains(block)) {
        return {Invalid("block " + std::to_string(block) + " is not on this shard"), block};
      }
      if (!named.insert(block).second)
        return {Invalid("a pull names block " + std::to_string(block) + " twice"), block};
    }
  }
  const std::uint32_t arrays = shard.store->array_count();
  if (pull.array >= arrays && !(shard.gradients && pull.array == kMeanGradient)) {
    return {Invalid("array " + std::to_string(pull.array) + " of a block is pulled; the job's optimizer keeps " +
                    std::to_string(arrays - 1) + " besides the weights")};
  }
  const Encoding own = shard.options.job.encoding;
  if (pull.encoding != Encoding::kFp32 && (pull.encoding != own || pull.array != 0)) {
    return {Invalid(std::string("a pull asks for ") + NameOf(pull.encoding) + " of array " +
                    std::to_string(pull.array) + "; weights come as fp32 or as the job's " + NameOf(own) +
                    ", states as fp32")};
  }
  return {};
}

}  // namespace capstan::server
