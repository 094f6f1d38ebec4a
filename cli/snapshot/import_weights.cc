#include "cli/snapshot/import_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "cli/run/new_job.h"
#include "cli/run/run_contents.h"
#include "cli/run/run_directory.h"
#include "cli/snapshot/gpt2_layout.h"
#include "cli/snapshot/run_snapshots.h"
#include "cli/trainer/built_in_model.h"
#include "common/base/durable_file.h"
#include "common/base/utf8.h"
#include "common/config/job/data_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "server/shard/admission.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/rocks_snapshot_store.h"
#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"
#include "update/optimizer.h"
#include "update/verdict.h"

namespace capstan::cli {

namespace {

namespace fs = std::filesystem;

constexpr SnapshotId kFirst{Generation{1}, Version{0}};

std::string ShapeText(const SafetensorsEntry& entry) {
  std::string text = entry.dtype + "[";
  for (std::size_t i = 0; i < entry.shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(entry.shape[i]);
  return text + "]";
}

std::string ShapeText(const TensorSpec& tensor) {
  SafetensorsEntry entry{.name = {}, .dtype = "F32", .shape = {}, .begin = 0, .end = 0};
  for (const std::int64_t extent : tensor.shape) entry.shape.push_back(static_cast<std::uint64_t>(extent));
  return ShapeText(entry);
}

Status Rename(const std::vector<std::string>& renames, std::vector<SafetensorsEntry>* tensors) {
  for (const std::string& rename : renames) {
    const std::size_t equals = rename.find('=');
    if (equals == std::string::npos) return Invalid("--map " + rename + ": write OLD=NEW");
    const std::string old_name = rename.substr(0, equals);
    const auto found = std::find_if(tensors->begin(), tensors->end(),
                                    [&](const SafetensorsEntry& tensor) { return tensor.name == old_name; });
    if (found == tensors->end()) {
      return Invalid("--map " + rename + ": the file has no tensor \"" + old_name + "\", or it is renamed already");
    }
    found->name = rename.substr(equals + 1);
  }
  return {};
}

// Finds for each tensor of the model the file's tensor of that name. One message lists everything that does not fit.
Result<std::map<std::string, const SafetensorsEntry*>> MatchTensors(const Catalog& catalog, const std::string& path,
                                                                    const std::vector<SafetensorsEntry>& tensors) {
  std::map<std::string, const SafetensorsEntry*> by_name;
  std::string problems;
  const auto complain = [&](const std::string& what) { problems += "\n  " + what; };
  for (const SafetensorsEntry& tensor : tensors) {
    if (!by_name.emplace(tensor.name, &tensor).second)
      complain("\"" + Excerpt(tensor.name) + "\" comes from two tensors");
  }
  std::map<std::string, const SafetensorsEntry*> left = by_name;
  for (const TensorSpec& wanted : catalog.tensors()) {
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end()) {
      complain("\"" + wanted.name + "\" is missing: the model has it as " + ShapeText(wanted));
    } else if (ShapeText(*found->second) != ShapeText(wanted)) {
      complain("\"" + wanted.name + "\" is " + ShapeText(*found->second) + ", the model's is " + ShapeText(wanted));
    }
    left.erase(wanted.name);
  }
  for (const auto& [name, tensor] : left)
    complain("\"" + Excerpt(name) + "\" is left over: the model has no such tensor");
  if (problems.empty()) return by_name;
  return Invalid("the weights in " + path + " do not fit the job's model:" + problems +
                 "\nuse a job file of the same model, and --map OLD=NEW where only names differ");
}

// Reads all weights, in the order of the catalog's tensors. Sets `layout` if the file has GPT-2's.
Result<std::vector<float>> ReadWeights(const JobConfig& config, const Catalog& catalog, const ImportOptions& options,
                                       WeightLayout* layout) {
  CAPSTAN_ASSIGN_OR_RETURN(SafetensorsFile file, ReadSafetensors(options.weights));
  CAPSTAN_RETURN_IF_ERROR(Rename(options.renames, &file.tensors));
  if (config.model.kind == ModelKind::kGpt && IsGpt2Layout(file)) {
    *layout = WeightLayout::kGpt2;
    CAPSTAN_RETURN_IF_ERROR(AdoptGpt2(catalog, options.weights, &file));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto by_name, MatchTensors(catalog, options.weights, file.tensors));
  std::vector<float> weights(catalog.element_count());
  for (TensorIndex i = 0; i < catalog.tensors().size(); ++i) {
    const SafetensorsEntry& entry = *by_name.at(catalog.tensors()[i].name);
    float* const values = weights.data() + catalog.flat_offset(i);
    const std::size_t count = (entry.end - entry.begin) / sizeof(float);
    std::memcpy(values, file.data.data() + entry.begin, entry.end - entry.begin);
    const float* const bad = std::find_if_not(values, values + count, [](float value) { return std::isfinite(value); });
    if (bad == values + count) continue;
    return Invalid(options.weights + ": element " + std::to_string(bad - values) + " of \"" +
                   catalog.tensors()[i].name + "\" is " + std::to_string(*bad) + "; a job cannot begin with it");
  }
  return weights;
}

// Returns a reference that never frees `values`, which must outlive all copies of the reference.
BufferRef Refer(std::vector<float>* values) {
  return WrapForeign(
      reinterpret_cast<std::byte*>(values->data()), values->size() * sizeof(float), [](void*) {}, nullptr);
}

// Writes a snapshot of version 0: for each shard the part that the shard itself would write.
class FirstSnapshot {
 public:
  FirstSnapshot(const JobConfig& config, const Catalog& catalog, std::vector<float> weights, JobId job)
      : config_(config),
        catalog_(catalog),
        weights_(std::move(weights)),
        zeros_(LargestBlock(catalog)),
        placement_(PlaceBlocks(catalog, config.shard_count())) {
    manifest_.id = kFirst;
    manifest_.parameters = ParametersOf(config, Step{0}, 0);
    job_ = job;
  }

  Status Write(const std::string& folder) {
    static constexpr std::atomic<bool> kNever{false};
    for (ShardIndex shard = 0; shard < config_.shard_count(); ++shard) {
      CAPSTAN_ASSIGN_OR_RETURN(const auto store, server::RocksSnapshotStore::Open(folder, shard, 0));
      server::ShardIdentity identity;
      identity.job = job_;
      identity.shard = shard;
      CAPSTAN_RETURN_IF_ERROR(store->PersistIdentity(identity));
      CAPSTAN_ASSIGN_OR_RETURN(const auto written, store->Write(ImageOf(shard), kNever));
      manifest_.digests.push_back(written.digest);
      manifest_.bytes += written.bytes;
    }
    return {};
  }

  const server::ManifestRecord& manifest() const { return manifest_; }

 private:
  static std::uint32_t LargestBlock(const Catalog& catalog) {
    std::uint32_t largest = 0;
    for (const Block& block : catalog.blocks()) largest = std::max(largest, block.count);
    return largest;
  }

  server::SnapshotImage ImageOf(ShardIndex shard) {
    server::SnapshotImage image;
    server::SnapshotHeader& header = image.header;
    header.job = job_;
    header.id = kFirst;
    header.part = shard;
    header.part_count = config_.shard_count();
    header.catalog_hash = catalog_.hash();
    header.array_count = 1 + static_cast<std::uint32_t>(KeptStates(MakeOptimizerRule(config_.optimizer)));
    header.parameters = manifest_.parameters;
    header.slot_count = config_.slots();
    const bool by_slot = !HasGlobalSteps(config_.mode());
    if (by_slot) header.ended.assign(header.slot_count, {});
    for (BlockIndex i = 0; i < placement_.size(); ++i) {
      if (placement_[i] != shard) continue;
      server::SnapshotHeader::BlockEntry block;
      block.block = i;
      block.count = catalog_.blocks()[i].count;
      if (by_slot) block.last.assign(header.slot_count, {});
      header.blocks.push_back(std::move(block));
      image.arrays.push_back(ArraysOf(i, header.array_count));
    }
    return image;
  }

  std::array<Slice, server::kBlockArraysMax> ArraysOf(BlockIndex index, std::uint32_t count) {
    const Block& block = catalog_.blocks()[index];
    const std::size_t bytes = std::size_t{block.count} * sizeof(float);
    std::array<Slice, server::kBlockArraysMax> arrays;
    const BufferRef weights = Refer(&weights_), zeros = Refer(&zeros_);
    arrays[0] = {weights, weights->data() + block.flat_offset * sizeof(float), bytes};
    for (std::uint32_t i = 1; i < count; ++i) arrays[i] = {zeros, zeros->data(), bytes};
    return arrays;
  }

  const JobConfig& config_;
  const Catalog& catalog_;
  std::vector<float> weights_, zeros_;
  std::vector<ShardIndex> placement_;
  JobId job_;
  server::ManifestRecord manifest_;
};

// Writes a coordinator's log that ends with the job's first snapshot.
Status WriteLog(const std::string& path, const JobConfig& config, JobId job, const server::ManifestRecord& manifest) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto log, server::FileCoordinatorLog::Open(path, 0));
  CAPSTAN_RETURN_IF_ERROR(log->Append(server::JobRecord{job, PrintJobConfig(config)}));
  CAPSTAN_RETURN_IF_ERROR(log->Append(server::RecoverRecord{kFirst.generation, {}, manifest.parameters, {}}));
  CAPSTAN_RETURN_IF_ERROR(log->Append(server::RunningRecord{kFirst.generation, {}}));
  return log->Append(manifest);
}

Status FillRunDirectory(const std::string& run_dir, const ImportOptions& options, const JobConfig& config,
                        const Catalog& catalog, std::vector<float> weights) {
  const JobId job = NewJobId();
  FirstSnapshot snapshot(config, catalog, std::move(weights), job);
  CAPSTAN_RETURN_IF_ERROR(snapshot.Write(SnapshotFolder(run_dir)));
  CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(run_dir + "/job.toml", PrintJobConfig(config)));
  CAPSTAN_RETURN_IF_ERROR(WriteLog(LogPath(run_dir), config, job, snapshot.manifest()));
  return WriteFileDurably(run_dir + kImportedMark, options.weights + "\n");
}

}  // namespace

Result<Imported> ImportWeights(const ImportOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(EditableJobConfig config, LoadJobConfig(options.job_file, options.overrides));
  CAPSTAN_RETURN_IF_ERROR(MakePathsAbsolute(&config));
  CAPSTAN_ASSIGN_OR_RETURN(const Catalog catalog, CatalogOfJob(config));
  WeightLayout layout = WeightLayout::kOwn;
  CAPSTAN_ASSIGN_OR_RETURN(std::vector<float> weights, ReadWeights(config, catalog, options, &layout));
  std::error_code error;
  const std::string snapshots = SnapshotFolder(options.run_dir);
  if (fs::exists(LogPath(options.run_dir), error)) {
    return Invalid("the run directory " + options.run_dir + " holds a run already; give a new --run-dir");
  }
  if (fs::exists(snapshots, error) && !fs::is_empty(snapshots, error)) {
    return Invalid("there are files in " + snapshots + " already; give a new --run-dir");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::Create(options.run_dir, config.name()));
  const Status status = FillRunDirectory(directory.path(), options, config, catalog, std::move(weights));
  if (!status.ok()) {
    fs::remove_all(snapshots, error);
    return status;
  }
  return Imported{.tensors = catalog.tensors().size(),
                  .bytes = catalog.element_count() * sizeof(float),
                  .shards = config.shard_count(),
                  .layout = layout};
}

}  // namespace capstan::cli
