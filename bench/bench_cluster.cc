#include "bench/bench_cluster.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "common/base/durable_file.h"
#include "common/base/process_address.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/flight/flight_recorder.h"
#include "common/keys/key_file.h"
#include "common/keys/listed_admission.h"
#include "common/keys/role_name.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/shard/shard_loop.h"

namespace capstan::bench {
namespace {

constexpr std::chrono::hours kForever{24};

void PrintFailures(const Notice& notice) {
  if (notice.severity != Severity::kInfo) std::fprintf(stderr, "benchmark: %s\n", notice.text.c_str());
}

// Sends the endpoint to the parent process and waits until that closes its end of the channel.
Status ServeUntilParentEnds(Channel& parent, const std::string& endpoint) {
  parent.Send(endpoint);
  (void)parent.Receive(kForever);
  return {};
}

// Returns the address on which a process of the cluster listens.
std::string ListenOf(Carrier carrier, const std::string& folder, const std::string& name) {
  const bool local = carrier == Carrier::kIpc || carrier == Carrier::kShared;
  return local ? LocalAddress(folder, name) : "127.0.0.1:0";
}

// Makes keys for the three roles of a cluster, and the list that allows them.
Status MakeKeys(const std::string& folder) {
  std::string list;
  for (const Role role : {Role::kCoordinator, Role::kServer, Role::kWorker}) {
    const std::string name(NameOf(role));
    const KeyFile file{role, NewKeyPair()};
    CAPSTAN_RETURN_IF_ERROR(WriteKeyFile(folder + "/" + name + ".key", file));
    list += "[" + name + "]\nkey = \"" + TextOf(file.keys.public_key) + "\"\nrole = \"" + name + "\"\n";
  }
  return WriteFileDurably(folder + "/allow.toml", list);
}

// Returns the options for the sockets of a process of the cluster.
Result<TransportOptions> TransportOf(Carrier carrier, const std::string& folder, Role role) {
  TransportOptions options;
  if (carrier != Carrier::kCurve) return options;
  CAPSTAN_ASSIGN_OR_RETURN(KeyFile file, ReadKeyFile(folder + "/" + std::string(NameOf(role)) + ".key"));
  options.keys = std::make_shared<const KeyPair>(std::move(file.keys));
  CAPSTAN_ASSIGN_OR_RETURN(options.admission, ListedAdmission::Open(folder + "/allow.toml", {}));
  return options;
}

Status RunCoordinator(const JobConfig& config, Carrier carrier, const std::string& run_dir, Channel& parent) {
  server::CoordinatorLoopOptions options;
  options.coordinator = {config, PrintJobConfig(config), JobId{1, static_cast<std::uint64_t>(getpid())}};
  CAPSTAN_ASSIGN_OR_RETURN(options.transport, TransportOf(carrier, run_dir, Role::kCoordinator));
  options.listen = ListenOf(carrier, run_dir, "coordinator");
  options.run_dir = run_dir;
  options.on_notice = PrintFailures;
  FlightRecorder flight("coordinator");
  options.flight = flight.AddLane("coordinator");
  monitoring::Registry registry;
  CAPSTAN_ASSIGN_OR_RETURN(const auto loop, server::CoordinatorLoop::Start(std::move(options), &registry));
  return ServeUntilParentEnds(parent, loop->endpoint());
}

Status RunShard(const JobConfig& config, ShardIndex index, const std::string& coordinator, TransportOptions transport,
                const std::string& listen, bool shared_memory, std::unique_ptr<server::SnapshotStore> store,
                Channel& parent) {
  server::ShardLoopOptions options;
  options.store = std::move(store);
  options.shard.shard = index;
  options.shard.shard_count = config.shard_count();
  options.shard.incarnation = Incarnation{1};
  options.shard.job = server::JobSettingsOf(config);
  options.transport = std::move(transport);
  options.listen = listen;
  options.coordinator = coordinator;
  options.shared_memory = shared_memory;
  options.on_notice = PrintFailures;
  FlightRecorder flight("server");
  options.flight = flight.AddLane(FlightNameOf(index));
  monitoring::Registry registry;
  CAPSTAN_ASSIGN_OR_RETURN(const auto loop, server::ShardLoop::Start(std::move(options), &registry));
  return ServeUntilParentEnds(parent, loop->endpoint());
}

}  // namespace

const char* CarrierName(Carrier carrier) {
  switch (carrier) {
    case Carrier::kTcp: return "tcp";
    case Carrier::kIpc: return "ipc";
    case Carrier::kShared: return "shared";
    case Carrier::kCurve: break;
  }
  return "curve";
}

Result<std::unique_ptr<BenchCluster>> BenchCluster::Start(const std::string& job_file, Carrier carrier,
                                                          const MakeStore& make_store) {
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(job_file, "the benchmark's job file"));
  std::unique_ptr<BenchCluster> cluster(new BenchCluster);
  std::string folder = std::filesystem::temp_directory_path() / "capstan-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Unreachable("cannot make a folder " + folder);
  cluster->run_dir_ = folder;
  if (carrier == Carrier::kCurve) {
    CAPSTAN_RETURN_IF_ERROR(MakeKeys(folder));
    cluster->worker_key_file_ = folder + "/worker.key";
  }
  cluster->processes_.push_back(
      ChildProcess::Fork([&](Channel& parent) { return RunCoordinator(config, carrier, folder, parent); }));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string endpoint, cluster->processes_.front().channel().Receive());
  cluster->coordinator_ = AddressOf(endpoint);
  for (ShardIndex index = 0; index < config.shard_count(); ++index) {
    const std::string listen = ListenOf(carrier, folder, "shard-" + std::to_string(index));
    cluster->processes_.push_back(ChildProcess::Fork([&](Channel& parent) -> Status {
      std::unique_ptr<server::SnapshotStore> store;
      if (make_store) {
        CAPSTAN_ASSIGN_OR_RETURN(store, make_store(folder, index));
      }
      CAPSTAN_ASSIGN_OR_RETURN(TransportOptions transport, TransportOf(carrier, folder, Role::kServer));
      return RunShard(config, index, cluster->coordinator_, std::move(transport), listen, carrier == Carrier::kShared,
                      std::move(store), parent);
    }));
    CAPSTAN_RETURN_IF_ERROR(cluster->processes_.back().channel().Receive().status());
  }
  return cluster;
}

BenchCluster::~BenchCluster() {
  processes_.clear();
  std::error_code ignored;
  std::filesystem::remove_all(run_dir_, ignored);
}

double BenchCluster::CpuSeconds() const {
  double seconds = 0.0;
  for (const ChildProcess& process : processes_) seconds += process.CpuSeconds();
  return seconds;
}

ResidentBytes BenchCluster::ShardMemory() const {
  ResidentBytes sum;
  for (std::size_t i = 1; i < processes_.size(); ++i) {
    const ResidentBytes one = processes_[i].Memory();
    sum.now += one.now;
    sum.peak += one.peak;
  }
  return sum;
}

}  // namespace capstan::bench
