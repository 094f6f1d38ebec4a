// Tests of the job file's addresses, and of the transport that follows from them.
#include "common/config/job/cluster_section.h"
#include "common/config/job/collective_kind.h"
#include "common/config/job/security_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/common/config/smallest_job.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::kSmallestJob;
using testing::ParseJob;

std::string MessageOf(const std::vector<std::string>& overrides) {
  const Status status = ParseJobConfig(kSmallestJob, "job.toml", overrides).status();
  CHECK(status.code() == Code::kInvalid);
  return status.message();
}

const std::string kKey(64, 'a');

TEST_CASE("a job whose file has no address for TCP has sockets of its machine", "[config]") {
  const auto transport = [](const std::vector<std::string>& set) { return TransportOf(ParseJob(kSmallestJob, set)); };
  CHECK(transport({}) == TransportWord::kLocal);
  CHECK(transport({"security.transport=local"}) == TransportWord::kLocal);
  CHECK(transport({"cluster.coordinator=ipc:///run/job/coordinator"}) == TransportWord::kLocal);
  CHECK(transport({"security.transport=plaintext"}) == TransportWord::kPlaintext);
  CHECK(transport({"cluster.coordinator=127.0.0.1:0"}) == TransportWord::kPlaintext);
  CHECK(transport({"cluster.listen=10.0.0.6:0"}) == TransportWord::kPlaintext);
  CHECK(transport({"cluster.advertise=node-1"}) == TransportWord::kPlaintext);
  CHECK(transport({"cluster.coordinator=10.0.0.5:1#" + kKey}) == TransportWord::kCurve);
  CHECK(transport({"cluster.coordinator=10.0.0.5:1#" + kKey + "," + kKey}) == TransportWord::kCurve);
  CHECK(transport({"cluster.coordinator=tcp://10.0.0.5:1#" + kKey}) == TransportWord::kCurve);
  CHECK(transport({"cluster.coordinator=10.0.0.5:1#" + kKey, "security.transport=curve"}) == TransportWord::kCurve);
  CHECK(transport({"security.transport=curve"}) == TransportWord::kCurve);
  CHECK_THAT(PrintJobConfig(ParseJob(kSmallestJob)),
             Contains("coordinator = \"auto\"") && Contains("transport = \"auto\""));
  CHECK(HashJobConfig(ParseJob(kSmallestJob)) ==
        HashJobConfig(ParseJob(kSmallestJob, {"security.transport=plaintext"})));
}

TEST_CASE("addresses that do not go together are refused with what to leave out", "[config]") {
  for (const std::string& key :
       std::vector<std::string>{"cluster.coordinator=10.0.0.5:1", "cluster.listen=10.0.0.6:0", "cluster.advertise=h"}) {
    CAPTURE(key);
    CHECK_THAT(MessageOf({"security.transport=local", key}), Contains("is for TCP") && Contains("leave"));
  }
  const std::string socket = "cluster.coordinator=ipc:///run/job/coordinator";
  for (const std::string& key :
       std::vector<std::string>{"cluster.listen=10.0.0.6:0", "cluster.advertise=h", "security.transport=plaintext"}) {
    CAPTURE(key);
    CHECK_THAT(MessageOf({socket, key}), Contains("a socket of this machine") && Contains("leave"));
  }
  for (const char* transport : {"security.transport=plaintext", "security.transport=local"}) {
    CHECK_THAT(MessageOf({"cluster.coordinator=10.0.0.5:1#" + kKey, transport}), Contains("has a key (after #)"));
  }
  for (const std::string& key : std::vector<std::string>{"", "abc", kKey + "0", kKey.substr(1) + "g"}) {
    CHECK_THAT(MessageOf({"cluster.coordinator=10.0.0.5:1#" + key}), Contains("coordinator"));
  }
  for (const std::string& path :
       std::vector<std::string>{"ipc://", "ipc://relative", "ipc:///a/", "ipc:///" + std::string(107, 'a')}) {
    CAPTURE(path);
    CHECK_THAT(MessageOf({"cluster.coordinator=" + path}), Contains("\"ipc:///PATH\""));
  }
}

TEST_CASE("gradients among workers stay encrypted, or somebody has said that they need not", "[config]") {
  const std::string curve = "security.transport=curve", allow = "security.plaintext_collectives=true";
  const std::string allreduce = "job.mode=allreduce";
  for (const std::string& library : std::vector<std::string>{"gloo", "nccl"}) {
    for (const std::vector<std::string>& keys : {std::vector<std::string>{allreduce, "allreduce.collective=" + library},
                                                 {"allreduce.local_reduce=" + library}}) {
      CAPTURE(keys);
      std::vector<std::string> set = keys;
      set.push_back("worker.device=cuda");
      CHECK_FALSE(EncryptsCollectives(ParseJob(kSmallestJob, set)));
      set.push_back(curve);
      CHECK_THAT(MessageOf(set), Contains(" = \"secure\"") && Contains("plaintext_collectives = true"));
      set.push_back(allow);
      CHECK_FALSE(EncryptsCollectives(ParseJob(kSmallestJob, set)));
    }
  }
  CHECK(EncryptsCollectives(ParseJob(kSmallestJob, {allreduce, "allreduce.collective=secure"})));
  CHECK(EncryptsCollectives(ParseJob(kSmallestJob, {"allreduce.local_reduce=secure"})));
  CHECK(EncryptsCollectives(ParseJob(kSmallestJob, {curve, "allreduce.local_reduce=secure"})));
}

TEST_CASE("a job of mode allreduce with keys encrypts gradients if its file does not say how to add them up",
          "[config]") {
  const std::string allreduce = "job.mode=allreduce", curve = "security.transport=curve";
  CHECK(CollectiveOf(ParseJob(kSmallestJob, {allreduce})) == Collective::kAuto);
  CHECK(CollectiveOf(ParseJob(kSmallestJob, {allreduce, curve})) == Collective::kSecure);
  CHECK(CollectiveOf(ParseJob(kSmallestJob, {allreduce, curve, "security.plaintext_collectives=true"})) ==
        Collective::kAuto);
}

}  // namespace
}  // namespace capstan
