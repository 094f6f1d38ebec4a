// Mutants: rules about who may send what to a shard, and about the list of live sessions.
#include <algorithm>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/upload_block.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

namespace {

bool MaySend(const LiveSession& live, const Push& push) { return server::MayPush(live, push.node); }
bool MaySend(const LiveSession& live, const EndSlot& end) {
  return server::MayPush(live, {end.report.slot, end.report.slot + 1});
}
bool MaySend(const LiveSession& live, const UploadBlock&) { return live.founder || !live.slots.empty(); }

// Gives the message the id of a session that may send it, if there is one.
template <class Body>
void Vouch(const server::Shard& shard, Body* body) {
  for (const LiveSession& live : shard.sessions().sessions()) {
    if (!MaySend(live, *body)) continue;
    body->session = live.session;
    return;
  }
}

void AddSenders(std::vector<Mutant>* all) {
  all->push_back({"unknown-session",
                  "a shard takes messages of sessions that it was not told of",
                  Mode::kSync,
                  Flaw::kNone,
                  AtShard<Push, EndSlot, UploadBlock>([](Tampering*, auto& body, const server::Shard& shard) {
                    if (shard.sessions().Find(body.session) == nullptr) Vouch(shard, &body);
                  }),
                  {}});
  all->push_back({"others-slots",
                  "a shard takes pushes of slots that the session does not hold",
                  Mode::kSync,
                  Flaw::kNone,
                  AtShard<Push, EndSlot>([](Tampering*, auto& body, const server::Shard& shard) {
                    const LiveSession* live = shard.sessions().Find(body.session);
                    if (live != nullptr && !MaySend(*live, body)) Vouch(shard, &body);
                  }),
                  {}});
  all->push_back({"founder",
                  "a shard takes first weights from any worker",
                  Mode::kSync,
                  Flaw::kNone,
                  AtShard<UploadBlock>([](Tampering*, UploadBlock& upload, const server::Shard& shard) {
                    if (shard.sessions().Find(upload.session) == nullptr) return;
                    for (const LiveSession& live : shard.sessions().sessions()) {
                      if (live.founder) upload.session = live.session;
                    }
                  }),
                  {}});
  all->push_back({"fetch-key",
                  "a shard hands out parts of snapshots to anybody",
                  Mode::kSync,
                  Flaw::kNone,
                  [](Tampering* t) {
                    if (const auto* reset = t->message.header.As<Reset>()) (*t->numbers)[t->to] = reset->fetch_key;
                    if (auto* fetch = t->message.header.As<Fetch>()) fetch->key = (*t->numbers)[t->to];
                  },
                  {}});
}

void AddLists(std::vector<Mutant>* all) {
  all->push_back({"list-order",
                  "a shard takes a list of sessions that is older than its own",
                  Mode::kSync,
                  Flaw::kNone,
                  On<LiveSessions>([](Tampering* t, LiveSessions& list) {
                    if (t->shard() == nullptr) return;
                    const std::uint64_t known = t->shard()->sessions().sequence(list.term);
                    if (known == 0 || list.sequence > known) return;
                    list.sequence = known + 1;
                    if (list.base != 0) list.base = known;
                  }),
                  {}});
  all->push_back({"list-gap",
                  "a shard takes a list of sessions although the one that it continues never came",
                  Mode::kSync,
                  Flaw::kNone,
                  On<LiveSessions>([](Tampering* t, LiveSessions& list) {
                    if (t->shard() != nullptr)
                      list.base = std::min(list.base, t->shard()->sessions().sequence(list.term));
                  }),
                  {}});
  all->push_back({"list-once",
                  "a list of sessions is sent once",
                  Mode::kSync,
                  Flaw::kNone,
                  On<Hello>([](Tampering*, Hello& hello) { hello.sessions = UINT64_MAX; }),
                  {}});
  all->push_back({"view-unseen",
                  "a session loses its slots with the step, whether it has seen the view without them or not",
                  Mode::kSync,
                  Flaw::kNone,
                  On<Heartbeat>([](Tampering*, Heartbeat& beat) { beat.view_sequence = UINT64_MAX; }),
                  {}});
}

}  // namespace

void AddSessions(std::vector<Mutant>* all) {
  AddSenders(all);
  AddLists(all);
}

}  // namespace capstan::sim
