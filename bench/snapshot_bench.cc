#include "bench/snapshot_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/bench_cluster.h"
#include "bench/bench_folder.h"
#include "bench/push_pull_worker.h"
#include "common/data/catalog.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSavedTensorBytes = std::size_t{4} << 20;
constexpr std::size_t kDirectBytes = std::size_t{4} << 20;  // per raw write
constexpr std::size_t kPage = 4096;
constexpr int kWriteSecondsMax = 50;  // after the last step, if no snapshot is written until then
// Bytes per parameter on a shard: weights and two moments of AdamW in fp32, their next version, the sum of gradients,
// and the version of weights and moments that a snapshot still writes.
constexpr double kSavingShardBytes = 12 + 12 + 4 + 12;

// Returns seconds of the clock that all processes of a machine share.
double Now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

struct Span {
  double begin = 0.0, end = 0.0;
  bool Overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
};

// Passes all calls to another store. Appends to a file when each snapshot was written, and the number of its bytes.
class TimedStore : public server::SnapshotStore {
 public:
  TimedStore(std::unique_ptr<server::SnapshotStore> store, const std::string& path)
      : store_(std::move(store)), times_(path) {
    times_.precision(17);
  }

  const server::ShardIdentity& identity() const override { return store_->identity(); }
  Status PersistIdentity(const server::ShardIdentity& identity) override { return store_->PersistIdentity(identity); }
  std::vector<SnapshotPart> List() const override { return store_->List(); }
  Result<Written> Write(server::SnapshotImage image, const std::atomic<bool>& cancelled) override {
    const double begin = Now();
    Result<Written> written = store_->Write(std::move(image), cancelled);
    if (written.ok()) times_ << begin << ' ' << Now() << ' ' << written->bytes << std::endl;
    return written;
  }
  Result<server::SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override {
    return store_->ReadHeader(id, part);
  }
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override {
    return store_->ReadArray(id, part, block, array, out);
  }
  Status Remove(SnapshotId id, ShardIndex part) override { return store_->Remove(id, part); }

 private:
  std::unique_ptr<server::SnapshotStore> store_;
  std::ofstream times_;
};

struct Snapshots {
  std::vector<Span> spans;
  std::uint64_t bytes = 0;  // of one snapshot
};

Snapshots ReadTimes(const std::string& path) {
  Snapshots snapshots;
  std::ifstream in(path);
  for (Span span; in >> span.begin >> span.end >> snapshots.bytes;) snapshots.spans.push_back(span);
  return snapshots;
}

// Returns the seconds for writing `bytes` to the disk as fast as possible: large aligned writes past the page cache,
// then one fsync.
Result<double> RawWriteSeconds(const std::string& folder, std::uint64_t bytes) {
  const std::string path = folder + "/raw";
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);  // no O_DIRECT here
  if (fd < 0) return Unreachable("cannot write " + path);
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(kPage, kDirectBytes), std::free);
  std::fill_n(static_cast<std::uint32_t*>(buffer.get()), kDirectBytes / sizeof(std::uint32_t), 0x3C23D70AU);
  bool ok = posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0;
  const double begin = Now();
  for (std::uint64_t done = 0; ok && done < bytes; done += kDirectBytes) {
    ok = write(fd, buffer.get(), kDirectBytes) == static_cast<ssize_t>(kDirectBytes);
  }
  ok = ok && fsync(fd) == 0;
  const double seconds = Now() - begin;
  close(fd);
  unlink(path.c_str());
  if (!ok) return Unreachable("cannot write " + std::to_string(bytes) + " bytes to " + folder);
  return seconds;
}

// Returns the durations of the steps in metrics.jsonl, in order.
std::vector<double> StepSeconds(const std::string& run_dir) {
  std::vector<double> seconds;
  std::ifstream in(run_dir + "/metrics.jsonl");
  constexpr std::string_view kKey = "\"seconds\":";
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(kKey);
    if (at != line.npos) seconds.push_back(std::strtod(line.c_str() + at + kKey.size(), nullptr));
  }
  return seconds;
}

std::string JobFile(const SnapshotOptions& options) {
  return "[job]\nname = \"bench\"\nmode = \"sync\"\nsteps = 1000000\nglobal_batch = 1\n[model]\nkind = "
         "\"mlp\"\n[data]\n"
         "kind = \"synthetic\"\n[optimizer]\nkind = \"adamw\"\n[snapshot]\nevery_seconds = 0\nevery_steps = " +
         std::to_string(options.every_steps) + "\n";
}

// Durations of steps: `during` of those that overlap the writing of a snapshot, `apart` of the others.
struct Steps {
  std::vector<double> during, apart;
};

// Sorts the steps of metrics.jsonl, except the first three. `seconds`: their durations. `end`: when the last one ended.
Steps Sort(const std::vector<double>& seconds, const std::vector<Span>& snapshots, double end) {
  Steps steps;
  constexpr std::size_t kWarmup = 3;
  Span step{0, end};
  for (std::size_t i = seconds.size(); i-- > kWarmup; step.end = step.begin) {
    step.begin = step.end - seconds[i];
    const bool during =
        std::any_of(snapshots.begin(), snapshots.end(), [&](const Span& s) { return s.Overlaps(step); });
    (during ? steps.during : steps.apart).push_back(seconds[i]);
  }
  return steps;
}

// The measurements of a round.
enum SnapshotMeasured : std::size_t { kTrained, kRawWrite, kIdleWrite };
// The readings of kTrained. The others read GB/s.
enum StepReading : std::size_t { kWriteRate, kSlowestDuring, kMedianDuring, kMedianApart, kPeakMemory };

Readings ReadingsOf(const Steps& steps, const Snapshots& snapshots, double bytes_per_parameter) {
  std::vector<double> durations;
  for (const Span& span : snapshots.spans) durations.push_back(span.end - span.begin);
  const double gigabytes = static_cast<double>(snapshots.bytes) / 1e9;
  const Spread during = SpreadOf(steps.during);
  return {gigabytes / SpreadOf(durations).median, during.most * 1e3, during.median * 1e3,
          SpreadOf(steps.apart).median * 1e3, bytes_per_parameter};
}

// Sets `snapshot_bytes` to the size of one snapshot.
Result<Readings> MeasureJob(const SnapshotOptions& options, std::uint64_t* snapshot_bytes) {
  PushPullLoad load{.tensor_bytes = kSavedTensorBytes};
  load.tensors = std::max<std::size_t>(1, (options.state_mib << 20) / 3 / kSavedTensorBytes);
  load.warmup_rounds = options.every_steps * (options.snapshots + 1) - 1;
  const BenchCluster::MakeStore make_store = [](const std::string& run_dir,
                                                ShardIndex shard) -> Result<std::unique_ptr<server::SnapshotStore>> {
    CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<server::SnapshotStore> store,
                             server::RocksSnapshotStore::Open(run_dir + "/snapshots", shard, 1));
    return std::unique_ptr<server::SnapshotStore>(
        std::make_unique<TimedStore>(std::move(store), run_dir + "/snapshot-times"));
  };
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster, BenchCluster::Start(JobFile(options), Carrier::kTcp, make_store));
  ChildProcess worker = ChildProcess::Fork(
      [&](Channel& parent) { return RunPushPullWorker(parent, cluster->coordinator(), "", "bench", load); });
  CAPSTAN_RETURN_IF_ERROR(worker.channel().Receive(std::chrono::minutes(5)).status());
  const double end = Now();
  Snapshots snapshots = ReadTimes(cluster->run_dir() + "/snapshot-times");
  while (snapshots.spans.empty() && Now() < end + kWriteSecondsMax) {  // the steps took all processors from the writers
    const Status silence = worker.channel().Receive(std::chrono::seconds(1)).status();
    if (silence.code() == Code::kUnreachable) return silence;
    snapshots = ReadTimes(cluster->run_dir() + "/snapshot-times");
  }
  const Steps steps = Sort(StepSeconds(cluster->run_dir()), snapshots.spans, end);
  if (snapshots.spans.empty() || steps.during.empty() || steps.apart.empty()) {
    return Refused("no snapshot was complete within " + std::to_string(options.every_steps) + " steps and " +
                   std::to_string(kWriteSecondsMax) +
                   " s: use a faster disk (TMPDIR), or end what else uses the processors");
  }
  *snapshot_bytes = snapshots.bytes;
  const double parameters = static_cast<double>(load.model_bytes() / sizeof(float));
  return ReadingsOf(steps, snapshots, static_cast<double>(cluster->ShardMemory().peak) / parameters);
}

Result<Readings> MeasureRawWrite(std::uint64_t bytes) {
  const BenchFolder folder;
  CAPSTAN_ASSIGN_OR_RETURN(const double seconds, RawWriteSeconds(folder.path(), bytes));
  return Readings{static_cast<double>(bytes) / 1e9 / seconds};
}

// Writes a snapshot of `bytes` bytes on a machine that does nothing else. Returns GB/s.
Result<double> WriteIdle(const std::string& folder, std::uint64_t bytes) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto store, server::RocksSnapshotStore::Open(folder, 0, 1));
  constexpr std::size_t kArrays = 3, kArrayBytes = kBlockElements * sizeof(float);
  BufferPool pool(kArrayBytes);
  server::SnapshotImage image;
  image.header.part_count = 1;
  image.header.array_count = kArrays;
  for (std::uint64_t done = 0; done < bytes; done += kArrays * kArrayBytes) {
    const auto block = static_cast<BlockIndex>(image.arrays.size());
    image.header.blocks.push_back({block, kBlockElements, 0, {}, {}});
    auto& arrays = image.arrays.emplace_back();
    for (std::size_t i = 0; i < kArrays; ++i) {
      BufferRef buffer = pool.Take();
      std::fill_n(reinterpret_cast<float*>(buffer->data()), kBlockElements, 0.01F);
      const std::byte* const data = buffer->data();
      arrays[i] = {std::move(buffer), data, kArrayBytes};
    }
  }
  const std::atomic<bool> cancelled{false};
  const double begin = Now();
  CAPSTAN_ASSIGN_OR_RETURN(const auto written, store->Write(std::move(image), cancelled));
  return static_cast<double>(written.bytes) / 1e9 / (Now() - begin);
}

// Measures in a process of its own, because a store starts threads.
Result<Readings> MeasureIdleWrite(std::uint64_t bytes) {
  const BenchFolder folder;
  ChildProcess writer = ChildProcess::Fork([&](Channel& parent) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const double rate, WriteIdle(folder.path("snapshots"), bytes));
    parent.Send(std::to_string(rate));
    return parent.Receive().status();
  });
  CAPSTAN_ASSIGN_OR_RETURN(const std::string rate, writer.channel().Receive(std::chrono::minutes(5)));
  return Readings{std::stod(rate)};
}

// Returns a row of two readings of the job.
Row JobRow(const std::string& name, StepReading value, StepReading limit) {
  return {.name = "snapshot/" + name,
          .unit = "ms",
          .limit_name = "median step without one (less is better)",
          .needs = {kTrained},
          .sample = [=](const std::vector<Readings>& readings) {
            return Sample{readings[kTrained][value], readings[kTrained][limit]};
          }};
}

Row WriteRow(const std::string& name, SnapshotMeasured written, std::size_t rate) {
  return {.name = "snapshot/" + name,
          .unit = "GB/s",
          .limit_name = "raw O_DIRECT write and fsync",
          .needs = {kTrained, written, kRawWrite},  // kTrained says how many bytes the others write
          .sample = [=](const std::vector<Readings>& readings) {
            return Sample{readings[written][rate], readings[kRawWrite][0]};
          }};
}

Row MemoryRow() {
  return {.name = "snapshot/memory-peak",
          .unit = "bytes/parameter",
          .limit_name = "the count by design (less is better)",
          .needs = {kTrained},
          .sample = [](const std::vector<Readings>& readings) {
            return Sample{readings[kTrained][kPeakMemory], kSavingShardBytes};
          }};
}

}  // namespace

Plan PlanSnapshot(const SnapshotOptions& options) {
  const auto bytes = std::make_shared<std::uint64_t>(0);
  RowGroup group;
  group.measurements = {[=] { return MeasureJob(options, bytes.get()); }, [=] { return MeasureRawWrite(*bytes); },
                        [=] { return MeasureIdleWrite(*bytes); }};
  group.rows = {WriteRow("write", kTrained, kWriteRate), WriteRow("write-idle", kIdleWrite, 0),
                JobRow("slowest-step", kSlowestDuring, kMedianApart),
                JobRow("median-step", kMedianDuring, kMedianApart), MemoryRow()};
  return {{std::move(group)}, options.rounds};
}

}  // namespace capstan::bench
