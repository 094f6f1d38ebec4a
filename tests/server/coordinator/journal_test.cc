// The journal when the log cannot be written: a snapshot exists, and a generation runs, only if the log has the record
// of it.
#include "server/coordinator/journal.h"

#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

// A log that can be made to refuse records.
class StoppableLog : public MemoryCoordinatorLog {
 public:
  Status Append(LogRecord record) override {
    return stopped ? Unreachable("the disk is gone") : MemoryCoordinatorLog::Append(std::move(record));
  }
  bool stopped = false;
};

TEST_CASE("a journal believes no snapshot and no running generation that its log does not have", "[server][log]") {
  CoordinatorOptions options;
  options.config = CoordinatorHarness().config;
  options.job_file = PrintJobConfig(options.config);
  options.job = JobId{1, 2};
  StoppableLog log;
  Journal journal(options, &log);
  REQUIRE(journal.Open().ok());
  const SnapshotId first{Generation{1}, Version{4}};
  REQUIRE(journal.Append(ManifestRecord{first, {}, {7}, 1}).ok());
  log.stopped = true;
  const Status status = journal.Append(ManifestRecord{{Generation{1}, Version{8}}, {}, {8}, 1});
  CHECK(status.message() == "the coordinator's log cannot be written: the disk is gone");
  CHECK(journal.newest_snapshot() == first);
  CHECK_FALSE(journal.Append(RunningRecord{Generation{1}, {Incarnation{7}}}).ok());
  CHECK_FALSE(journal.running());
}

}  // namespace
}  // namespace capstan::server
