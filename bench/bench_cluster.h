// BenchCluster: the server side of a job: a coordinator and its shards, each in its own process.
//
// Kind:   owned by one thread, which must be the only thread of the process when it starts a cluster.
// Fails:  as the loops do: no free port, no folder for temporary files.
// Why:    benchmarks run the production code of both, over TCP, over TCP with keys, and over the Unix sockets of a job
//         on one machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/child_process.h"
#include "common/base/status.h"
#include "common/config/job_config.h"
#include "server/storage/snapshot_store.h"

namespace capstan::bench {

// kShared: Unix sockets, and payloads in shared memory.
enum class Carrier { kTcp, kIpc, kShared, kCurve };
const char* CarrierName(Carrier carrier);

class BenchCluster {
 public:
  // Makes the snapshot store of a shard, in the process of that shard. Without it, snapshots stay in memory.
  using MakeStore =
      std::function<Result<std::unique_ptr<server::SnapshotStore>>(const std::string& run_dir, ShardIndex shard)>;
  static Result<std::unique_ptr<BenchCluster>> Start(const std::string& job_file, Carrier carrier,
                                                     const MakeStore& make_store = {});
  ~BenchCluster();

  // The coordinator's address.
  const std::string& coordinator() const { return coordinator_; }
  // The file with a worker's key; empty: the cluster has no keys.
  const std::string& worker_key_file() const { return worker_key_file_; }
  // Returns the processor time of the coordinator and all shards.
  double CpuSeconds() const;
  // Returns the memory of all shards together.
  ResidentBytes ShardMemory() const;
  // The folder with metrics.jsonl; removed with this object.
  const std::string& run_dir() const { return run_dir_; }

 private:
  BenchCluster() = default;

  std::string run_dir_;
  std::string coordinator_;
  std::string worker_key_file_;
  std::vector<ChildProcess> processes_;  // the coordinator first
};

}  // namespace capstan::bench
