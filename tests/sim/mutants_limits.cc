// Mutants: broken rules of limits, stops and readers, forgotten facts, and wasted work or messages.
#include <cmath>

#include "common/wire/messages/hello.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

namespace {

void AddLimitFlaws(std::vector<Mutant>* all) {
  all->push_back({"unreadable-header",
                  "a snapshot's header is written that its reader refuses",
                  Mode::kSync,
                  Flaw::kUnreadableHeader,
                  {},
                  {}});
  all->push_back({"long-message", "messages are longer than a frame", Mode::kSync, Flaw::kSmallFrames, {}, {}});
  all->push_back(
      {"stopped-at-once", "a stop does not wait for the last snapshot", Mode::kSync, Flaw::kStopAtOnce, {}, {}});
}

// Returns the key in Tampering::numbers of the version that the follower requested from this shard.
std::uint64_t AskedOf(std::uint64_t shard) { return (std::uint64_t{1} << 40) + shard; }

void AddReading(std::vector<Mutant>* all) {
  const Hook deliver = AtShard<Pull>([](Tampering* t, Pull& pull, const server::Shard& shard) {
    if (t->from != kReader) return;
    (*t->numbers)[AskedOf(t->to)] = pull.version.value;
    pull.version = shard.version();
  });
  const Hook send = On<Weights>([](Tampering* t, Weights& weights) {
    if (t->to != kReader) return;
    const auto asked = t->numbers->find(AskedOf(t->from));
    if (asked != t->numbers->end()) weights.version = weights.asked = Version{asked->second};
  });
  all->push_back(
      {"reader-any-version", "a reader takes blocks of whatever version", Mode::kSync, Flaw::kNone, deliver, send});
}

void AddForgetting(std::vector<Mutant>* all) {
  all->push_back({"hello-parts",
                  "a shard that comes back names none of its parts",
                  Mode::kSync,
                  Flaw::kNone,
                  On<Hello>([](Tampering*, Hello& hello) { hello.parts.clear(); }),
                  {}});
  all->push_back({"non-finite-unseen",
                  "the coordinator does not look whether a gradient is finite",
                  Mode::kSync,
                  Flaw::kNone,
                  On<Prepared>([](Tampering*, Prepared& prepared) {
                    for (double& square : prepared.report.segment_squares) {
                      if (!std::isfinite(square)) square = 1.0;
                    }
                  }),
                  {}});
}

// Mutants that waste work or messages. They run in old jobs (of many steps) or over slow lines, where waste is noticed.
void AddWaste(std::vector<Mutant>* all) {
  Mutant walks{"spare-walks",
               "a worker does not hear which step is under way",
               Mode::kSync,
               Flaw::kNone,
               [](Tampering* t) {
                 if (t->to < kWorkers) return;
                 if (auto* view = t->message.header.As<View>(); view != nullptr && view->slots.empty()) view->step = {};
                 if (auto* staged = t->message.header.As<Staged>()) staged->present = {};
               },
               {}};
  walks.old = true;
  all->push_back(std::move(walks));
  Mutant again{"pushes-again",
               "a worker sends every push five times",
               Mode::kSync,
               Flaw::kNone,
               {},
               On<Push>([](Tampering* t, Push&) {
                 for (int i = 0; i < 4; ++i) t->also.push_back({t->from, t->to, t->message});
               })};
  again.slow_lines = true;
  all->push_back(std::move(again));
}

}  // namespace

void AddLimits(std::vector<Mutant>* all) {
  AddLimitFlaws(all);
  AddReading(all);
  AddForgetting(all);
  AddWaste(all);
}

}  // namespace capstan::sim
