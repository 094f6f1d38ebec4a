#include <string>

#include "tests/catch.h"
#include "tests/sim/judge.h"

using namespace capstan;
using namespace capstan::sim;

// Some of MUTANTS.md: one for each way in which a broken rule is seen.
TEST_CASE("a broken rule is seen within a few seeds", "[sim][mutants]") {
  const char* const names[] = {
      "push-step",         "weights-version",     "redo-coefficient",   "sum-order",          "redo-ratios",
      "newest-deleted",    "part-not-durable",    "no-optimizer-state", "one-snapshot",       "recover-not-durable",
      "duplicate-applied", "no-sequence-numbers", "ack-when-sent",      "log-not-durable",    "replayed-twice",
      "log-trimmed-early", "reset-program-state", "own-program-state",  "skipped-counted",    "tentative-early",
      "tentative-attempt", "made-step",           "group-kept",         "first-array-is-all", "keep-forgotten"};
  for (const char* name : names) {
    const Mutant* mutant = FindMutant(name);
    REQUIRE(mutant != nullptr);
    Judge judge;
    std::string problem;
    RunName run;
    run.mode = mutant->mode;
    run.durable = mutant->durable;
    for (; run.seed <= 1000 && problem.empty(); ++run.seed) problem = judge.Try(run, mutant);
    INFO(name);
    CHECK(!problem.empty());
  }
}

TEST_CASE("there are at least 24 mutants, each with a name of its own", "[sim][mutants]") {
  CHECK(Mutants().size() >= 24);
  for (const Mutant& mutant : Mutants()) CHECK(FindMutant(mutant.name) == &mutant);
}
