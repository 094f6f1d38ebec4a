#include "cli/run/job_transport.h"

#include <optional>
#include <utility>

#include "cli/run/address.h"
#include "cli/run/job_sockets.h"
#include "common/base/host_port.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/security_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

// Unix sockets in one folder.
class LocalTransport : public JobTransport {
 public:
  explicit LocalTransport(const JobConfig& config) : cluster_(config.cluster) {}

  Status Check() const override { return {}; }

  Result<std::string> FindCoordinator(const std::string& run_dir) override {
    if (cluster_.coordinator != kAutoAddress) return cluster_.coordinator;
    CAPSTAN_ASSIGN_OR_RETURN(JobSockets sockets, JobSockets::Make(run_dir));
    made_ = std::move(sockets);
    return made_->coordinator();
  }

  Result<std::vector<std::string>> FindShards(std::uint32_t server) const override {
    const JobSockets sockets = JobSockets::Of(cluster_.coordinator);
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < cluster_.shards_per_server; ++i) {
      addresses.push_back(sockets.shard(server * cluster_.shards_per_server + i));
    }
    return addresses;
  }

  void Remove() override {
    if (made_) made_->Remove();
  }

 private:
  const ClusterSection& cluster_;
  std::optional<JobSockets> made_;
};

// TCP, as it is.
class PlaintextTransport : public JobTransport {
 public:
  PlaintextTransport(const JobConfig& config, Plaintext plaintext) : cluster_(config.cluster), plaintext_(plaintext) {}

  Status Check() const override {
    CAPSTAN_RETURN_IF_ERROR(CheckExposure("cluster.coordinator", Coordinator(), plaintext_));
    if (HostOf(cluster_.listen) == "auto") return {};
    return CheckExposure("cluster.listen", cluster_.listen, plaintext_);
  }

  Result<std::string> FindCoordinator(const std::string& /*run_dir*/) override { return Coordinator(); }

  Result<std::vector<std::string>> FindShards(std::uint32_t /*server*/) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string listen, FindListen());
    CAPSTAN_RETURN_IF_ERROR(CheckExposure("the address of the server's shards", listen, plaintext_));
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < cluster_.shards_per_server; ++i) addresses.push_back(ShiftPort(listen, i));
    return addresses;
  }

  void Remove() override {}

 private:
  std::string Coordinator() const {
    return cluster_.coordinator == kAutoAddress ? "127.0.0.1:0" : cluster_.coordinator;
  }

  // Fails if the server would listen on a loopback address and the coordinator is on another machine, which could not
  // reach it.
  Result<std::string> FindListen() const {
    Result<std::string> listen = ResolveListen(cluster_.listen, cluster_.coordinator);
    if (!listen.ok()) {
      return Status(listen.status().code(), listen.status().message() +
                                                "; check cluster.coordinator, or write the address of this machine "
                                                "that others reach it by: --set cluster.listen=HOST:0");
    }
    if (!IsLoopback(HostOf(*listen)) || !cluster_.advertise.empty()) return listen;
    const Result<std::string> towards = ResolveListen("auto:0", cluster_.coordinator);
    if (!towards.ok() || IsLoopback(HostOf(*towards))) return listen;
    const Result<std::string> coordinator = NumericHost(cluster_.coordinator);
    if (coordinator.ok() && HostOf(*coordinator) == HostOf(*towards)) return listen;  // on this machine
    return Invalid("cluster.listen is " + cluster_.listen +
                   ", which only this machine reaches, and the coordinator is at " + cluster_.coordinator +
                   ", on another one; leave cluster.listen out, or --set cluster.listen=" + *towards);
  }

  const ClusterSection& cluster_;
  const Plaintext plaintext_;
};

}  // namespace

std::unique_ptr<JobTransport> CreateJobTransport(const JobConfig& config, Plaintext plaintext) {
  if (TransportOf(config) == TransportWord::kLocal) return std::make_unique<LocalTransport>(config);
  return std::make_unique<PlaintextTransport>(config, plaintext);
}

}  // namespace capstan::cli
