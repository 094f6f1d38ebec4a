// A program that is started by a process with all of capstan in it inherits none of capstan's sockets and files.
#include <capstan/client.h>
#include <capstan/reader.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/run/run_directory.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/data/safetensors.h"
#include "monitoring/exporter.h"
#include "monitoring/trace.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

namespace capstan {
namespace {

// Returns what the descriptors of a program that this process starts refer to, sorted.
std::vector<std::string> InheritedByChild() {
  std::vector<std::string> targets;
  FILE* const child = popen("exec ls -l /proc/self/fd", "re");
  REQUIRE(child != nullptr);
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), child) != nullptr) {
    const std::string text = line.data();
    const std::size_t arrow = text.find(" -> ");
    if (arrow == text.npos) continue;
    const std::string target = text.substr(arrow + 4);
    if (target.find("/proc/") == target.npos && target.find("pipe:") == target.npos) targets.push_back(target);
  }
  pclose(child);
  std::sort(targets.begin(), targets.end());
  return targets;
}

TEST_CASE("a child that runs another program inherits no descriptor of a job", "[e2e][descriptors]") {
  const std::vector<std::string> before = InheritedByChild();
  EditableJobConfig config;
  config.job.steps = 1000;
  config.job.slots = config.job.global_batch = 1;
  config.cluster.servers = 1;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 60;
  testing::TempFolder folder;
  const Result<cli::RunDirectory> directory = cli::RunDirectory::Create(folder.path("run"), "job");
  REQUIRE(directory.ok());
  e2e::InProcessJob job(config);
  server::ShardLoopOptions options;
  options.shard.shard_count = 1;
  options.shard.incarnation = Incarnation{1};
  options.shard.job = server::JobSettingsOf(config);
  options.store = std::move(server::RocksSnapshotStore::Open(folder.path("store"), 0, 0)).value();
  options.listen = "127.0.0.1:0";
  options.coordinator = job.address();
  const auto shard = std::move(server::ShardLoop::Start(std::move(options), &job.registry)).value();
  const auto log = std::move(server::FileCoordinatorLog::Open(folder.path("log"), 0)).value();
  const auto trace = std::move(monitoring::Trace::Open(folder.path("trace.json"), "test")).value();
  const auto registry = std::make_shared<monitoring::Registry>();
  monitoring::ExporterOptions exporting;
  exporting.listen = "127.0.0.1:0";
  const auto exporter = std::move(monitoring::Exporter::Start(std::move(exporting), registry)).value();
  const auto writer = SafetensorsWriter::Create(folder.path("w"), {{"w", {3}, {}}});
  REQUIRE(writer.ok());
  const auto client =
      std::move(Client::Connect({.coordinator = job.address(), .worker = "w", .on_notice = {}})).value();
  WorkerDescription description;
  description.tensors = {{"w", {3}}};
  REQUIRE(client->Declare(description).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  REQUIRE(client->NextWork(deadline).ok());
  REQUIRE(client->WaitWeights(0, 0, deadline).ok());
  const auto reader = std::move(Reader::Connect({.coordinator = job.address(), .name = "r"})).value();
  REQUIRE(reader->Pull({}, deadline).ok());
  CHECK(InheritedByChild() == before);
}

}  // namespace
}  // namespace capstan
