#include "server/shard/shard_context.h"

#include <utility>

#include "common/wire/messages/error.h"

namespace capstan::server {

ShardContext::ShardContext(ShardOptions given, std::shared_ptr<monitoring::ShardMetrics> counters)
    : options(std::move(given)),
      metrics(std::move(counters)),
      term(options.life.term),
      generation(options.life.generation) {}

std::size_t ShardContext::home_slot_count() const {
  const std::uint32_t count = options.shard_count;
  return slot_count / count + (options.shard < slot_count % count ? 1 : 0);
}

void ShardContext::Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block, Step last) const {
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
