// On, AtShard, AtCoordinator: make hooks that change messages of some types for a mutant.
//
// Kind:   functions that make a hook.
#pragma once

#include <functional>

#include "server/shard/shard.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

using Hook = std::function<void(Tampering*)>;

// Makes a hook that calls edit(tampering, body) for messages of these types.
template <class... Bodies, class Edit>
Hook On(Edit edit) {
  return [edit](Tampering* t) { t->message.header.VisitAs<Bodies...>([&](auto& body) { edit(t, body); }); };
}

// Makes a hook that calls edit(tampering, body, shard) for messages of these types to a shard that serves.
template <class... Bodies, class Edit>
Hook AtShard(Edit edit) {
  return On<Bodies...>([edit](Tampering* t, auto& body) {
    const server::Shard* shard = t->shard();
    if (shard != nullptr && shard->serving()) edit(t, body, *shard);
  });
}

template <class... Bodies, class Edit>
Hook AtCoordinator(Edit edit) {
  return On<Bodies...>([edit](Tampering* t, auto& body) {
    if (t->receiver != nullptr) edit(t, body, *t->receiver);
  });
}

}  // namespace capstan::sim
