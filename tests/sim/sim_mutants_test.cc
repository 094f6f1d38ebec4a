
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/sim/judge.h"
#include "tests/sim/mutant_search.h"
#include "tests/sim/seed_list.h"
#include "tests/tier.h"

using namespace capstan;
using namespace capstan::sim;

namespace {

constexpr bool kSanitized = CAPSTAN_SANITIZED;

std::vector<ListedRun> CaughtSeeds() {
  Result<std::vector<ListedRun>> caught = ReadSeedList(CAPSTAN_SIM_FOLDER "/caught_seeds.txt");
  if (caught.ok()) return std::move(caught).value();
  FAIL(caught.status().message());
  return {};
}

// Returns the row of a mutant in the table of MUTANTS.md; empty if there is none.
std::string RowOf(const Mutant& mutant) {
  std::ifstream table(CAPSTAN_SIM_FOLDER "/MUTANTS.md");
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("| " + mutant.name + " |")) return line;
  }
  return "";
}

}  // namespace

TEST_CASE("the listed seed of every caught mutant shows its broken rule", "[sim][mutants]") {
  const std::vector<ListedRun> caught = CaughtSeeds();
  for (std::size_t i = 0; i < caught.size(); i += kSanitized ? 12 : 1) {
    const Mutant* mutant = FindMutant(caught[i].note);
    INFO(caught[i].note << ", " << Command(caught[i].name)
                        << ": where other runs of it are caught, sim --mutants --caught lists one of them");
    REQUIRE(mutant != nullptr);
    CHECK(mutant->mode == caught[i].name.mode);
    CHECK(mutant->durable == caught[i].name.durable);
    CHECK(mutant->old == caught[i].name.old);
    CHECK(mutant->slow_lines == caught[i].name.slow_lines);
    CHECK(mutant->local == caught[i].name.local);
    CHECK(mutant->external == caught[i].name.external);
    CHECK(mutant->shared == caught[i].name.shared);
    CHECK(TryMutant(*mutant, caught[i].name).has_value());
  }
}

TEST_CASE("every mutant has a name of its own, and at most one listed seed", "[sim][mutants]") {
  std::set<std::string> listed;
  for (const ListedRun& run : CaughtSeeds()) CHECK(listed.insert(run.note).second);
  for (const Mutant& mutant : Mutants()) CHECK(FindMutant(mutant.name) == &mutant);
}

TEST_CASE("the table of mutants has the listed seeds, and a reason for each mutant that has none", "[sim][mutants]") {
  std::ifstream file(CAPSTAN_SIM_FOLDER "/MUTANTS.md");
  const std::string table{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::vector<ListedRun> caught = CaughtSeeds();
  for (const Mutant& mutant : Mutants()) {
    const RunName* name = FindCaught(caught, mutant);
    const std::string seed = name != nullptr ? std::to_string(name->seed) : "–";
    INFO(mutant.name);
    CHECK(RowOf(mutant).find(" | " + seed + " | ") != std::string::npos);
    CHECK((name == nullptr) == (table.find("- **" + mutant.name + "**: ") != std::string::npos));
  }
}

// A mutant that is found here should get a line in caught_seeds.txt. The runs in that list must notice their mutant
// every time, so a run that is found must do so a second time.
TEST_CASE("a seed that tier all finds for a mutant that none has shown yet shows it again", "[sim][survivors]") {
  if (testing::TestTier() != testing::Tier::kAll) return;
  const std::vector<ListedRun> caught = CaughtSeeds();
  for (const Mutant& mutant : Mutants()) {
    if (FindCaught(caught, mutant) != nullptr) continue;
    const RunName first{.seed = (std::uint64_t{testing::TestSeed()} << 20) + 1};
    const auto found = SearchMutant(mutant, first, kSanitized ? 100 : 2000);
    const std::string what = found ? Command(found->name) + ": " + found->how : "not caught";
    std::printf("%s: %s\n", mutant.name.c_str(), what.c_str());
    INFO(mutant.name << ": " << what);
    CHECK((!found || TryMutant(mutant, found->name).has_value()));
  }
}
