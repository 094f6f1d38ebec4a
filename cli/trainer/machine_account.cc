#include "cli/trainer/machine_account.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "kernels/base/context.h"
#include "server/shard/shard_memory.h"
#include "update/optimizer.h"
#include "worker/data/dataset.h"
#include "worker/device/job_model.h"
#include "worker/device/model_factory.h"
#include "worker/train/memory_account.h"

namespace capstan::cli {
namespace {

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Counts a shard's memory. A small job does not fill the window for pushes and the push log, so each of them counts as
// at most one gradient per slot.
server::ShardMemory OfShard(const JobConfig& config, std::uint64_t elements) {
  server::ShardOptions options;
  options.job = server::JobSettingsOf(config);
  return server::CountShardMemory(options, elements, config.slots());
}

void CountServers(const JobConfig& config, const Catalog& catalog, MachineAccount* account) {
  std::vector<std::uint64_t> elements(config.shard_count(), 0);
  const std::vector<ShardIndex> placement = PlaceBlocks(catalog, config.shard_count());
  for (std::size_t block = 0; block < placement.size(); ++block) {
    elements[placement[block]] += catalog.blocks()[block].count;
  }
  account->servers = config.cluster.servers;
  for (std::uint32_t first = 0; first < config.shard_count(); first += config.cluster.shards_per_server) {
    std::uint64_t server = 0;
    for (std::uint32_t shard = first; shard < first + config.cluster.shards_per_server; ++shard) {
      const server::ShardMemory memory = OfShard(config, elements[shard]);
      server += memory.bytes();
      account->parameters += memory.elements;
      account->bytes_per_parameter = memory.bytes_per_element;
    }
    account->all_servers += server;
    account->largest_server = std::max(account->largest_server, server);
  }
}

// Counts the workers' host memory. A device's memory is counted by the process that has the device.
Status CountWorkers(const JobConfig& config, const train::Dataset& data, train::JobModel& model,
                    kernels::CpuContext& context, MachineAccount* account) {
  const train::ModelMaker make = [&](const nn::ModelShape& other) {
    return train::CreateJobModel(context, config.worker.precision, other);
  };
  account->workers = config.cluster.workers;
  CAPSTAN_ASSIGN_OR_RETURN(account->worker, train::CountMemory(context, config, data, model, make));
  if (config.worker.device.kind != DeviceKind::kCpu) account->worker.activations = 0;
  return {};
}

std::string Advice(const MachineAccount& account) {
  return std::string("\nuse a smaller [model], an [optimizer] kind with less state") +
         (account.workers > 1 ? ", fewer [cluster] workers" : "") +
         ", or several machines: capstan-server and capstan-worker start there by hand";
}

}  // namespace

std::string MachineAccount::ByRole() const {
  return "\n  " + Count(servers, "server") + ": " + MemoryText(all_servers) + " (" + Count(parameters, "parameter") +
         " of " + std::to_string(bytes_per_parameter) + " bytes each, and windows of gradients)\n  " +
         Count(workers, "worker") + ": " + MemoryText(workers * worker.resident()) + (workers > 1 ? ", each " : ", ") +
         worker.ToString();
}

Result<MachineAccount> CountMachine(const JobConfig& config) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::Dataset> data, train::OpenDataset(config, "/"));
  kernels::CpuContext context(static_cast<int>(std::max(config.worker.threads, 1U)));
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, train::ShapeOfModel(config, data->spec()));
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::JobModel> model,
                           train::CreateJobModel(context, config.worker.precision, shape));
  CAPSTAN_ASSIGN_OR_RETURN(const Catalog catalog, Catalog::Create(train::JobTensors(config, model->tensors())));
  MachineAccount account;
  // A snapshot has the weights and the optimizer's states as fp32.
  account.snapshot_bytes_per_parameter =
      4 * (1 + static_cast<std::uint64_t>(KeptStates(MakeOptimizerRule(config.optimizer))));
  CountServers(config, catalog, &account);
  CAPSTAN_RETURN_IF_ERROR(CountWorkers(config, *data, *model, context, &account));
  return account;
}

Status CheckMachine(const MachineAccount& account, const FreeMemory& free) {
  CAPSTAN_RETURN_IF_ERROR(train::CheckMemory(account.worker, free));
  if (account.bytes() > free.resident.left_bytes) {
    return Invalid("all processes of this job need " + MemoryText(account.bytes()) + " together, and " +
                   free.resident.name + " has " + MemoryText(free.resident.left_bytes) + " free:" + account.ByRole() +
                   Advice(account));
  }
  if (account.largest_server <= free.address_space.limit_bytes) return {};
  return Invalid("a server of this job needs " + MemoryText(account.largest_server) +
                 ", and the address space of each process (ulimit -v) is limited to " +
                 MemoryText(free.address_space.limit_bytes) + ":" + account.ByRole() + Advice(account) +
                 "; or raise ulimit -v");
}

}  // namespace capstan::cli
