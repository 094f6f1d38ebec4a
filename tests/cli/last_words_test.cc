#include "cli/launch/last_words.h"

#include <filesystem>
#include <fstream>

#include "cli/run/shell_words.h"
#include "server/storage/file_coordinator_log.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

TEST_CASE("words are quoted as a shell wants them", "[cli][last_words]") {
  CHECK(ShellWords({"python3", "train.py", "--lr=0.1"}) == "python3 train.py --lr=0.1");
  CHECK(ShellWords({"a b", "", "it's", "$HOME"}) == "'a b' '' 'it'\\''s' '$HOME'");
}

TEST_CASE("a run that ended is said with the whole call that goes on with it", "[cli][last_words]") {
  const TempFolder scratch;
  LaunchArguments arguments;
  arguments.capstan = "build/bin/capstan";
  arguments.program = {"python3", "my train.py"};
  const std::string run = scratch.path();
  const std::string call = "build/bin/capstan launch --resume --run-dir " + run + " -- python3 'my train.py'";
  CHECK(GoOnCall(arguments, run) == call);
  CHECK(WhyItEnded(arguments, run, Refused("it broke"), 0).find(call) == std::string::npos);  // nothing to go on with
  std::filesystem::create_directory(scratch.path("snapshots"));
  auto log = server::FileCoordinatorLog::Open(scratch.path("snapshots/coordinator.log"), 0);
  REQUIRE(log.ok());
  CHECK(WhyItEnded(arguments, run, Refused("it broke"), 0).find(call) == std::string::npos);  // no job was begun
  REQUIRE((*log)->Append(server::JobRecord{{1, 2}, "[job]"}).ok());
  CHECK(WhyItEnded(arguments, run, Refused("it broke"), 0).ends_with("when that is mended, go on by: " + call));
  CHECK(WhyItEnded(arguments, run, Refused("stopped at step 3"), 1).find("left at once") == std::string::npos);
  const std::string hasty = WhyItEnded(arguments, run, Status(), 2);
  CHECK(hasty.starts_with("stopped\n"));
  CHECK(hasty.find("left at once") != std::string::npos);
  CHECK(hasty.find("there is no snapshot yet") != std::string::npos);
  CHECK(hasty.ends_with("to go on: " + call));
}

TEST_CASE("a run that was done is said with its weights and how to train longer", "[cli][last_words]") {
  const TempFolder scratch;
  LaunchArguments arguments;
  arguments.capstan = "capstan";
  const std::string run = scratch.path();
  CHECK(DoneAlready(arguments, run, 600).find("which is gone") != std::string::npos);
  std::ofstream(scratch.path("final.safetensors")).flush();
  CHECK(DoneAlready(arguments, run, 600) ==
        "was done already: 600 steps; weights: " + run +
            "/final.safetensors  sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            "\nto train longer: capstan launch --resume --run-dir " +
            run + " --set job.steps=1200");
}

}  // namespace
}  // namespace capstan::cli
