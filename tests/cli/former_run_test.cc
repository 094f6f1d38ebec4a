#include "cli/run/former_run.h"

#include <filesystem>
#include <fstream>

#include "cli/run/run_contents.h"
#include "cli/run/run_directory.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "server/storage/file_coordinator_log.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;
using testing::TempFolder;

EditableJobConfig Job() {
  EditableJobConfig config = *ParseJobConfig(
      "[job]\nname = \"digits\"\nsteps = 5\nglobal_batch = 4\n[model]\nkind = \"mlp\"\nhidden = [4]\n[data]\nkind = "
      "\"synthetic\"\nsamples = 8\nfeatures = 2\nclasses = 2\n[optimizer]\nkind = \"sgd\"\nlr = 0.1\n",
      "test");
  return config;
}

class RunFolder : public TempFolder {
 public:
  RunFolder() { std::filesystem::create_directories(path("snapshots")); }
  void Log(std::vector<server::LogRecord> records) const {
    auto log = server::FileCoordinatorLog::Open(path("snapshots/coordinator.log"), 0).value();
    for (server::LogRecord& record : records) REQUIRE(log->Append(std::move(record)).ok());
  }
  void CommitStep() const { std::ofstream(path("metrics.jsonl")) << "{}\n"; }
};

server::JobRecord RecordOf(const JobConfig& config) { return {JobId{1, 2}, PrintJobConfig(config)}; }

TEST_CASE("a run of the same job is gone on with, from its first moment to its end", "[cli][run_directory]") {
  const RunFolder folder;
  CHECK(FindFormerRun(folder.path("nothing"), Job()).value() == FormerRun::kNone);
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kNone);
  folder.Log({RecordOf(Job())});
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kUnfinished);
  folder.CommitStep();
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kUnfinished);
  folder.Log({server::DoneRecord{}});
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kFinished);
}

TEST_CASE("a run of another job is refused with the words to write, once it has a step", "[cli][run_directory]") {
  const RunFolder folder;
  folder.Log({RecordOf(Job())});
  EditableJobConfig other = Job();
  other.optimizer.lr = 0.2;
  CHECK(FindFormerRun(folder.path(), other).value() == FormerRun::kNone);
  folder.CommitStep();
  const Status status = FindFormerRun(folder.path(), other).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("holds a run with other settings, optimizer.lr = 0.2") &&
                                   Contains("--resume") && Contains("new --run-dir") &&
                                   Contains("mv " + folder.path()));
  CHECK(FindFormerRun(folder.path(), other, RunBegin::kResume).value() == FormerRun::kUnfinished);
  other.job.seed = 7;
  CHECK_THAT(FindFormerRun(folder.path(), other, RunBegin::kResume).status().message(),
             Contains("[job]: it was begun with seed") && Contains("give it the settings that it had"));
}

TEST_CASE("a job that failed before a server took part in it is forgotten, and no other", "[cli][run_directory]") {
  const RunFolder failed, begun, imported;
  failed.Log({RecordOf(Job())});
  begun.Log({RecordOf(Job()), server::RecoverRecord{}});
  imported.Log({RecordOf(Job())});
  std::ofstream(imported.path() + kImportedMark).flush();
  for (const RunFolder* folder : {&failed, &begun, &imported}) ForgetFailedStart(folder->path());
  CHECK(FindFormerRun(failed.path(), Job()).value() == FormerRun::kNone);
  CHECK(FindFormerRun(begun.path(), Job()).value() == FormerRun::kUnfinished);
  CHECK(FindFormerRun(imported.path(), Job()).value() == FormerRun::kUnfinished);
}

TEST_CASE("a log that cannot be read is looked at again only where steps were committed", "[cli][run_directory]") {
  const RunFolder folder;
  std::ofstream(folder.path("snapshots/coordinator.log")) << "no log\nnor this\n";
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kNone);
  folder.CommitStep();
  CHECK(FindFormerRun(folder.path(), Job()).value() == FormerRun::kUnfinished);
}

}  // namespace
}  // namespace capstan::cli
