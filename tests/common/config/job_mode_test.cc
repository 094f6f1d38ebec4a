// Tests of a job file's modes: which settings they allow, and which mode may follow another in one run.
#include "common/config/job/sections.h"
#include "common/config/job_config.h"
#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

const std::string kModeJob =
    "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n";

Result<JobConfig> TryParse(const std::vector<std::string>& overrides, const std::string& text = kModeJob) {
  return ParseJobConfig(text, "job.toml", overrides);
}
JobConfig ParseMode(const std::vector<std::string>& overrides, const std::string& text = kModeJob) {
  Result<JobConfig> config = TryParse(overrides, text);
  INFO(config.status().message());
  REQUIRE(config.ok());
  return *config;
}
std::string ModeRefusal(const std::vector<std::string>& overrides) { return TryParse(overrides).status().message(); }

TEST_CASE("the section of mode allreduce may stand in a job of any mode", "[config]") {
  const JobConfig config = ParseMode({"job.mode=allreduce", "allreduce.wire=bf16", "allreduce.bucket_mib=0.5"});
  CHECK(config.job.mode == Mode::kAllReduce);
  CHECK(config.allreduce.wire == Encoding::kBf16);
  CHECK(config.allreduce.bucket_mib == 0.5);
  CHECK(config.allreduce.collective == Collective::kAuto);
  CHECK(ParseMode({"job.mode=allreduce", "allreduce.collective=gloo"}).allreduce.collective == Collective::kGloo);
  CHECK(ParseMode({"job.mode=allreduce", "allreduce.collective=nccl", "worker.device=cuda"}).allreduce.collective ==
        Collective::kNccl);
  CHECK(ParseMode({"job.mode=sync", "allreduce.collective=nccl"}).worker.device.kind == DeviceKind::kCpu);
  CHECK(ParseMode({}, PrintJobConfig(config)) == config);
  CHECK(ParseMode({"job.mode=sync"}, PrintJobConfig(config)).job.mode == Mode::kSync);
}

TEST_CASE("what mode allreduce cannot do is refused with what to do instead", "[config]") {
  CHECK_THAT(ModeRefusal({"job.mode=allreduce", "allreduce.bucket_mib=0"}), Contains("allreduce.bucket_mib is 0"));
  CHECK_THAT(ModeRefusal({"job.mode=allreduce", "allreduce.collective=nccl"}),
             Contains("allreduce.collective") && Contains("[worker] device is \"cpu\"") && Contains("\"auto\""));
  CHECK_THAT(ModeRefusal({"job.mode=allreduce", "allreduce.collective=mpi"}),
             Contains("unknown word") && Contains("\"nccl\""));
  CHECK_THAT(ModeRefusal({"job.mode=allreduce", "job.acknowledge=durable"}), Contains("\"async\" or \"bounded\""));
  CHECK_THAT(ModeRefusal({"job.mode=allreduce", "cluster.workers=257", "job.global_batch=300", "job.slots=257"}),
             Contains("at most 256"));
  CHECK(TryParse({"job.mode=allreduce", "cluster.workers=257", "job.slots=8"}).ok());  // the others wait for a slot
  const Result<JobConfig> client = ParseJobConfig(
      "[job]\nmode = \"allreduce\"\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"client\"\n", "job.toml");
  CHECK_THAT(client.status().message(), Contains("job.toml:2") && Contains("capstan-worker"));
}

TEST_CASE("workers of one machine add up their pushes in mode sync only", "[config]") {
  CHECK_FALSE(ReducesLocally(ParseMode({})));
  const std::string word = GENERATE(values<std::string>({"gloo", "nccl"})), set = "allreduce.local_reduce=" + word;
  const JobConfig config = ParseMode({set, "worker.device=cuda"}), none = ParseMode({"worker.device=cuda"});
  CHECK(ReducesLocally(config));
  CHECK(ParseMode({}, PrintJobConfig(config)) == config);
  CHECK(HashJobConfig(config) == HashJobConfig(none));  // the bits are the same
  CHECK(DescribeDifference(config, none).empty());
  for (const char* mode : {"job.mode=async", "job.mode=bounded", "job.mode=allreduce"}) {
    const Status status = TryParse({mode, "worker.device=cuda", set.c_str()}).status();
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains("local_reduce") && Contains("mode \"sync\""));
  }
  CHECK_THAT(ModeRefusal({"allreduce.local_reduce=nccl"}), Contains("compute on a GPU") && Contains("take \"gloo\""));
}

TEST_CASE("a job may go from sync to allreduce and back, and to no other mode", "[config]") {
  const JobConfig sync = ParseMode({}), ring = ParseMode({"job.mode=allreduce", "allreduce.wire=bf16"});
  CHECK(DescribeDifference(ring, ParseMode({"job.mode=allreduce", "allreduce.collective=gloo"})).empty());
  CHECK(DescribeDifference(sync, ring).empty());
  CHECK(DescribeDifference(ring, sync).empty());
  CHECK(HashJobConfig(sync) != HashJobConfig(ring));  // all processes of one run have one mode
  CHECK_THAT(DescribeDifference(ring, ParseMode({"job.mode=async"})), Contains("mode"));
}

}  // namespace
}  // namespace capstan
