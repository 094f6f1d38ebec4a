// InProcessJob: a coordinator and shards over real sockets, on threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mailbox.h"
#include "common/base/process_address.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/shard/job_settings.h"
#include "server/shard/shard_loop.h"
#include "tests/patience.h"
#include "tests/temp_folder.h"

namespace capstan::e2e {

enum class Sockets { kTcp, kLocal };

struct InProcessJob {
  // `on_notice` is called on the coordinator's thread.
  explicit InProcessJob(
      JobConfig job_config, std::function<void(const Notice&)> on_notice = [](const Notice&) {},
      Sockets job_sockets = Sockets::kTcp)
      : config(std::move(job_config)), sockets(job_sockets) {
    server::CoordinatorLoopOptions options;
    options.coordinator.config = config;
    options.coordinator.job_file = PrintJobConfig(config);
    options.coordinator.job = JobId{1, 2};
    options.listen = Listen("coordinator");
    options.run_dir = folder.path();
    options.on_notice = std::move(on_notice);
    options.on_end = [this] { (void)ends.Push(0).ok(); };
    coordinator = std::move(server::CoordinatorLoop::Start(std::move(options), &registry)).value();
  }

  std::string Listen(const std::string& name) const {
    return sockets == Sockets::kTcp ? "127.0.0.1:0" : LocalAddress(folder.path(), name);
  }
  std::string address() const { return AddressOf(coordinator->endpoint()); }
  void StartShard(ShardIndex index, std::uint64_t config_hash = 0) {
    server::ShardLoopOptions options;
    options.shard.shard = index;
    options.shard.shard_count = config.shard_count();
    options.shard.incarnation = Incarnation{++incarnations};
    options.shard.job = server::JobSettingsOf(config);
    if (config_hash != 0) options.shard.job.config_hash = config_hash;
    options.listen = Listen("shard-" + std::to_string(index));
    options.coordinator = address();
    options.on_end = [this] { (void)ends.Push(1).ok(); };
    shards.push_back(std::move(server::ShardLoop::Start(std::move(options), &registry)).value());
  }
  bool WaitForEnds(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60 * testing::Patience());
    for (; count > 0; --count) {
      if (!ends.PopUntil(deadline)) return false;
    }
    return true;
  }

  const JobConfig config;
  const Sockets sockets;
  testing::TempFolder folder;
  monitoring::Registry registry;
  Mailbox<int> ends{64};
  std::uint64_t incarnations = 0;
  std::unique_ptr<server::CoordinatorLoop> coordinator;
  std::vector<std::unique_ptr<server::ShardLoop>> shards;
};

}  // namespace capstan::e2e
