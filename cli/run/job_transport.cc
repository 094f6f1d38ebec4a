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

  Status Check() override { return {}; }
  Status CheckLaunch() override { return {}; }
  bool needs_keys() const override { return false; }

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

  TransportOptions Options() const override { return {}; }

  void Remove() override {
    if (made_) made_->Remove();
  }

 private:
  const ClusterSection& cluster_;
  std::optional<JobSockets> made_;
};

// TCP.
class TcpTransport : public JobTransport {
 public:
  explicit TcpTransport(const JobConfig& config) : cluster_(config.cluster) {}

  Result<std::string> FindCoordinator(const std::string& /*run_dir*/) override { return Coordinator(); }

  Result<std::vector<std::string>> FindShards(std::uint32_t /*server*/) const override {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string listen, FindListen());
    CAPSTAN_RETURN_IF_ERROR(CheckListen("the address of the server's shards", listen));
    std::vector<std::string> addresses;
    for (std::uint32_t i = 0; i < cluster_.shards_per_server; ++i) addresses.push_back(ShiftPort(listen, i));
    return addresses;
  }

  void Remove() override {}

 protected:
  // Whether this process may listen at `address`, which is what `what` names.
  virtual Status CheckListen(const std::string& what, const std::string& address) const = 0;
  const ClusterSection& cluster() const { return cluster_; }
  std::string Coordinator() const {
    return cluster_.coordinator == kAutoAddress ? "127.0.0.1:0" : cluster_.coordinator;
  }

 private:
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
};

// TCP, as it is.
class PlaintextTransport : public TcpTransport {
 public:
  PlaintextTransport(const JobConfig& config, Plaintext plaintext) : TcpTransport(config), plaintext_(plaintext) {}

  Status Check() override {
    CAPSTAN_RETURN_IF_ERROR(CheckListen("cluster.coordinator", Coordinator()));
    if (HostOf(cluster().listen) == "auto") return {};
    return CheckListen("cluster.listen", cluster().listen);
  }

  Status CheckLaunch() override { return Check(); }
  bool needs_keys() const override { return false; }
  TransportOptions Options() const override { return {}; }

 protected:
  Status CheckListen(const std::string& what, const std::string& address) const override {
    return CheckExposure(what, address, plaintext_);
  }

 private:
  const Plaintext plaintext_;
};

// TCP with keys.
class CurveTransport : public TcpTransport {
 public:
  CurveTransport(const JobConfig& config, std::string key_file, ListedAdmission::OnNotice on_notice)
      : TcpTransport(config), key_file_(std::move(key_file)), on_notice_(std::move(on_notice)) {}

  Status Check() override {
    CAPSTAN_ASSIGN_OR_RETURN(keys_, LoadKeysToListen(key_file_, on_notice_));
    if (keys_.pair != nullptr) return {};
    return Invalid(
        "[security] transport = \"curve\" needs a key of this process: name its file with --key-file or "
        "CAPSTAN_KEY_FILE; capstan keygen makes keys for all processes of a job");
  }
  Status CheckLaunch() override { return {}; }
  bool needs_keys() const override { return true; }

  TransportOptions Options() const override {
    TransportOptions options;
    options.keys = keys_.pair;
    options.admission = keys_.admission;
    return options;
  }

 protected:
  Status CheckListen(const std::string& /*what*/, const std::string& /*address*/) const override { return {}; }

 private:
  const std::string key_file_;
  const ListedAdmission::OnNotice on_notice_;
  ProcessKeys keys_;
};

}  // namespace

std::unique_ptr<JobTransport> CreateJobTransport(const JobConfig& config, Plaintext plaintext, std::string key_file,
                                                 ListedAdmission::OnNotice on_notice) {
  switch (TransportOf(config)) {
    case TransportWord::kLocal: return std::make_unique<LocalTransport>(config);
    case TransportWord::kCurve:
      return std::make_unique<CurveTransport>(config, std::move(key_file), std::move(on_notice));
    case TransportWord::kAuto:
    case TransportWord::kPlaintext: break;
  }
  return std::make_unique<PlaintextTransport>(config, plaintext);
}

}  // namespace capstan::cli
