#include "server/shard/shard_context.h"

#include <utility>

#include "common/wire/messages/error.h"
#include "common/wire/messages/reset.h"

namespace capstan::server {

ShardContext::ShardContext(ShardOptions given, std::shared_ptr<monitoring::ShardMetrics> counters)
    : options(std::move(given)),
      metrics(std::move(counters)),
      term(options.identity.term),
      generation(options.identity.generation) {}

void ShardContext::Begin(const Reset& reset, Catalog given, const std::vector<BlockIndex>& mine,
                         BlockStore::Begin begin) {
  store.reset();  // frees its memory first: there is no room for two
  gradients.reset();
  catalog = std::make_unique<const Catalog>(std::move(given));
  store = std::make_unique<BlockStore>(*catalog, mine, options.job.optimizer, options.job.seed, begin,
                                       options.job.encoding, options.memory);
  // The next version's memory, and that of the version that is still written to a snapshot: no step waits for them.
  const bool steps = HasGlobalSteps(options.job.mode),
             external = options.job.optimizer.kind == OptimizerKind::kExternal;
  if (!WorkersUpdate(options.job.mode)) {
    store->Reserve((steps ? 1 : 0) + (options.job.snapshots ? 1 : 0), steps && !external);
  }
  if (external) {
    gradients =
        std::make_unique<BlockStore>(*catalog, mine, OptimizerRule{.kind = OptimizerKind::kExternal}, options.job.seed,
                                     BlockStore::Begin::kVersion0, Encoding::kFp32, options.memory);
  }
  index_of.clear();
  for (std::size_t index = 0; index < mine.size(); ++index) index_of[mine[index]] = index;
  generation = reset.generation;
  timeline = reset.timeline;
  slot_count = reset.slot_count;
  served.Serve(reset.snapshot.version, reset.parameters);
  served.last_commit.reset();
}

std::size_t ShardContext::home_slot_count() const {
  const std::uint32_t count = options.shard_count;
  return slot_count / count + (options.shard < slot_count % count ? 1 : 0);
}

void ShardContext::Reject(PeerId to, const Status& fault, BlockIndex block, Outbox* out) const {
  (fault.code() == Code::kCorrupt ? metrics->pushes_corrupt : metrics->pushes_invalid).Add(1);
  Refuse(to, fault.code(), fault.message(), out, block);
}

void ShardContext::RefuseStranger(PeerId to, Code code, std::string message, Outbox* out) const {
  Error error;
  error.code = code;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

void ShardContext::Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block,
                          SequenceNumber last) const {
  Error error;
  error.code = code;
  error.generation = generation;
  error.incarnation = options.incarnation;
  error.step = step();
  error.last = last;
  error.block = block;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

}  // namespace capstan::server
