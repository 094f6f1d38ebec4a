// Program state: bytes that a program gives with a step and gets back with the next one, through the C functions of the
// client and a job in this process.
#include <capstan/capstan.h>

#include <array>
#include <cmath>
#include <string>

#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/client_program.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

EditableJobConfig MakeConfig(Mode mode = Mode::kSync) { return e2e::ClientProgram::MakeConfig(mode, 6, 3); }

class Program : public e2e::ClientProgram {
 public:
  using ClientProgram::ClientProgram;

  capstan_code Give(const std::string& state) {
    return capstan_set_program_state(client(), state.data(), state.size());
  }
  // Waits for the round's weights, and returns the program state of their version.
  std::string State() {
    REQUIRE(capstan_wait_weights(client(), 0, 0, kPatience) == CAPSTAN_OK);
    const void* state = nullptr;
    std::size_t bytes = 0;
    REQUIRE(capstan_program_state(client(), &state, &bytes) == CAPSTAN_OK);
    return {static_cast<const char*>(state), bytes};
  }
};

TEST_CASE("what a program gives with a step comes back with the next one, and stays until it gives another",
          "[e2e][program]") {
  Program program(MakeConfig());
  const std::array<std::string, 6> given = {std::string("a\0b", 3), "", std::string(65536, '\xFF'),
                                            "with a skip",          "", ""};
  std::string wanted;
  std::uint64_t updates = 0;
  for (std::uint64_t step = 0; step < given.size(); ++step) {
    REQUIRE(program.NextWork() == CAPSTAN_OK);
    REQUIRE(program.work.step == step);
    CHECK(program.work.updates == updates);
    CHECK(program.State() == wanted);
    const bool skipped = step == 3;
    for (std::size_t i = 0; i < program.work.slot_length; ++i) {
      if (i == 1) REQUIRE(program.Give(given.at(step)) == CAPSTAN_OK);  // slot 0 ends without one
      program.RunSlot(program.work.slots[i], skipped ? INFINITY : 1.0F);
    }
    if (!skipped) ++updates;
    if (!given.at(step).empty()) wanted = given.at(step);
  }
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.work.done == 1);
}

TEST_CASE("a program's state that is too long, missing or outside a round is invalid and says why", "[e2e][program]") {
  Program program(MakeConfig());
  CHECK(capstan_set_program_state(program.client(), nullptr, 1) == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("state is a null pointer"));
  CHECK(capstan_program_state(program.client(), nullptr, nullptr) == CAPSTAN_INVALID);
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.Give(std::string(65537, 's')) == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("the state of step 0 has 65537 bytes, and at most 65536 are kept with a step"));
  CHECK(program.NextWork(0) == CAPSTAN_INVALID);  // it cannot continue as if nothing had happened
  Program early(MakeConfig());
  CHECK(early.Give("s") == CAPSTAN_INVALID);
  CHECK_THAT(early.error(), Contains("SetProgramState comes in a round"));
}

TEST_CASE("without global steps there is nothing that a program's state could be kept with", "[e2e][program][async]") {
  Program program(MakeConfig(Mode::kAsync));
  REQUIRE(program.NextWork() == CAPSTAN_OK);
  CHECK(program.work.updates == 0);
  CHECK(program.Give("s") == CAPSTAN_INVALID);
  CHECK_THAT(program.error(), Contains("only mode sync has steps"));
}

}  // namespace
}  // namespace capstan
