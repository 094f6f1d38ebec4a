// BenchCluster: the server side of a job, each part a process of its own: a coordinator and its shards.
//
// Kind:   owned by one thread, which has no other threads beside it when it starts one.
// Fails:  as the loops do: no free port, no folder for temporary files.
// Why:    benchmarks run the loops that production runs, with addresses that a job file cannot name (ipc).
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

enum class Carrier { kTcp, kIpc };
const char* CarrierName(Carrier carrier);

class BenchCluster {
 public:
  // One process for each of the job's shards.
  // `make_store`, called in the shard's process, says where it keeps its snapshots; without it they stay in memory.
  using MakeStore =
      std::function<Result<std::unique_ptr<server::SnapshotStore>>(const std::string& run_dir, ShardIndex shard)>;
  static Result<std::unique_ptr<BenchCluster>> Start(const std::string& job_file, Carrier carrier,
                                                     const MakeStore& make_store = {});
  ~BenchCluster();

  // host:port
  const std::string& coordinator() const { return coordinator_; }
  // Of coordinator and shards.
  double CpuSeconds() const;
  // Of all shards together.
  ResidentBytes ShardMemory() const;
  // The folder with metrics.jsonl, as long as this object lives.
  const std::string& run_dir() const { return run_dir_; }

 private:
  BenchCluster() = default;

  std::string run_dir_;
  std::string coordinator_;
  std::vector<ChildProcess> processes_;  // the coordinator first
};

}  // namespace capstan::bench
