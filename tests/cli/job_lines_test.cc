#include "cli/report/job_lines.h"

#include "cli/report/progress.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

EditableJobConfig Config(std::uint32_t batch, std::uint32_t slots, std::uint32_t workers) {
  EditableJobConfig config;
  config.job.steps = 200;
  config.job.global_batch = batch;
  config.job.slots = slots;
  config.cluster.workers = workers;
  return config;
}

TEST_CASE("the first line says the slots, and whether they are the default", "[cli][lines]") {
  CHECK(SizeText(Config(64, 4, 2)) == "200 steps, 4 slots (the default)");
  CHECK(SizeText(Config(64, 3, 2)) == "200 steps, 3 slots");
  CHECK(SizeText(Config(1, 1, 2)) == "200 steps, 1 slot (the default)");
}

TEST_CASE("workers beyond the slots are counted, with what to change", "[cli][lines]") {
  CHECK(IdleWorkersText(Config(64, 4, 4)).empty());
  CHECK(IdleWorkersText(Config(64, 4, 6)) ==
        "2 of 6 workers will have nothing to compute: set job.slots to 6 or cluster.workers to 4; another number of "
        "slots gives other bits");
  CHECK(IdleWorkersText(Config(5, 4, 6)) ==  // a slot of the 6 would never have a sample
        "2 of 6 workers will have nothing to compute: set cluster.workers to 4; another number of slots gives other "
        "bits");
}

TEST_CASE("the end names the weights and their sum", "[cli][lines]") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("final.safetensors", "abc");
  const Progress progress("", 10);
  CHECK(EndLines(progress, path) ==
        std::vector<std::string>{"weights: " + path +
                                 "  sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"});
}

TEST_CASE("the end warns of a loss that rose, before the weights", "[cli][lines]") {
  const testing::TempFolder folder;
  Progress progress("", 10);
  std::vector<std::string> keep;
  progress.AddLine(R"({"step": 0, "loss": 2.30, "samples": 1, "seconds": 1})", &keep);
  progress.AddLine(R"({"step": 1, "loss": 603614, "samples": 1, "seconds": 1})", &keep);
  const std::vector<std::string> lines = EndLines(progress, folder.path("none"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("warning: the loss rose from 2.3 to 603614: "));
  CHECK(lines[1].find("No such file") != std::string::npos);
}

}  // namespace
}  // namespace capstan::cli
