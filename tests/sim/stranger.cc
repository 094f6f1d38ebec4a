#include "tests/sim/stranger.h"

#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/addresses.h"

namespace capstan::sim {

namespace {

constexpr Incarnation kHighest{std::uint64_t{1} << 52};
constexpr std::uint64_t kNonce = kStranger;

}  // namespace

void Stranger::Act(const World& world, std::uint64_t config_hash, Outbox* out) {
  if (world.coordinator == nullptr) return;
  out->Send(PeerId{kCoordinator}, Choose(world, config_hash));
}

void Stranger::Handle(const Message& message) {
  if (const auto* view = message.header.As<View>(); view != nullptr && view->session.value != 0) {
    session_ = view->session;
  }
  const auto* error = message.header.As<Error>();
  if (error != nullptr && error->code == Code::kStale) session_ = {};
}

Hello Stranger::MakeHello(const World& world, JobId job, std::uint64_t config_hash, ShardIndex shard,
                          Incarnation incarnation) {
  Hello hello;
  hello.job = job;
  hello.shard = shard;
  hello.incarnation = incarnation;
  hello.term = world.coordinator->term();
  hello.generation = world.coordinator->generation();
  hello.config_hash = config_hash;
  hello.endpoint = "shard-" + std::to_string(shard);
  return hello;
}

Header Stranger::Choose(const World& world, std::uint64_t config_hash) {
  const std::uint64_t kind = settings_.random->Below(session_.value == 0 ? 6 : 10);
  if (kind >= 6) return MakeBeat(world);
  if (kind >= 2) return MakeJoin(kind);
  const auto shard = static_cast<ShardIndex>(settings_.random->Below(world.shards.size()));
  Hello hello = MakeHello(world, settings_.job, config_hash, shard, kHighest);
  if (kind == 0) return hello;
  switch (settings_.random->Below(3)) {
    case 0: hello.term = Term{std::uint64_t{1} << 48}; break;
    case 1: hello.newest_retained = {Generation{std::uint64_t{1} << 48}, Version{1}}; break;
    default: hello.version = Version{std::uint64_t{1} << 48};
  }
  return hello;
}

Header Stranger::MakeJoin(std::uint64_t kind) const {
  Join join;
  join.worker = "w0";
  join.nonce = kNonce;
  join.numeric_class = "simulated";
  join.catalog = *settings_.tensors;
  if (kind == 2) join.catalog.pop_back();
  if (kind == 3) {
    join.rank = 1;
    join.ranks = settings_.slots;
  }
  return join;
}

Header Stranger::MakeBeat(const World& world) const {
  Heartbeat beat;
  beat.session = session_;
  beat.nonce = kNonce;
  if (settings_.random->Below(2) == 0) return beat;
  beat.generation = world.coordinator->generation();
  beat.step = world.coordinator->step();
  constexpr GroupState kSays[] = {GroupState::kNone, GroupState::kBroken, GroupState::kLost};
  beat.group = kSays[settings_.random->Below(3)];
  beat.group_text = "gone";
  return beat;
}

}  // namespace capstan::sim
