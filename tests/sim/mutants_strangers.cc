// Mutants: broken rules about processes that are no part of the job.
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

namespace {

constexpr std::uint64_t kHighest = std::uint64_t{1} << 52;
constexpr std::uint64_t kMany = 6;  // more than any simulated job needs to begin

// For each start of a shard a stranger claims its index once, and is taken for the process that holds it.
void ClaimIndex(Tampering* t, Hello& hello, const server::Coordinator&) {
  if (hello.incarnation.value >= kHighest) return;
  if (!t->seen->insert({hello.shard, hello.incarnation.value, 0, 0, 0}).second) return;
  Hello claim = hello;
  claim.incarnation = Incarnation{kHighest};
  claim.serving = false;
  claim.version = {};
  claim.last_commit.reset();
  claim.prepared.reset();
  claim.parts.clear();
  t->also.push_back({t->from, kCoordinator, {std::move(claim), {}}});
}

// A stranger that declares another model counts for many.
void DeclareForMany(Tampering* t, Join& join, const server::Coordinator& coordinator) {
  if (join.catalog.empty() || coordinator.catalog() != nullptr || join.worker == "stranger") return;
  if (!t->seen->insert({1, 0, 0, 0, 0}).second) return;
  Join other = join;
  other.worker = "stranger";
  other.catalog.pop_back();
  for (std::uint64_t i = 0; i < kMany; ++i) {
    t->also.push_back({kWorkers + 1'000'000 + i, kCoordinator, {other, {}}});
    ++other.nonce;
  }
}

}  // namespace

void AddStrangers(std::vector<Mutant>* all) {
  all->push_back({"hello-holder",
                  "a Hello counts as one of the process that holds the index, whoever sends it",
                  Mode::kSync,
                  Flaw::kNone,
                  AtCoordinator<Hello>(ClaimIndex),
                  {}});
  all->push_back({"one-witness",
                  "what one process declares of the job counts as if many declared it",
                  Mode::kSync,
                  Flaw::kNone,
                  AtCoordinator<Join>(DeclareForMany),
                  {}});
}

}  // namespace capstan::sim
