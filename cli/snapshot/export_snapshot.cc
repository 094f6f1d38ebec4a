#include "cli/snapshot/export_snapshot.h"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/snapshot/check_snapshot.h"
#include "cli/trainer/built_in_model.h"
#include "common/config/job/optimizer_section.h"
#include "common/data/safetensors.h"
#include "server/storage/snapshot.h"
#include "server/storage/verified_read.h"

namespace capstan::cli {

namespace {

using server::ManifestRecord;
using server::SnapshotHeader;

std::vector<std::string> StateNames(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kExternal: return {};
    case OptimizerKind::kMomentum: return {"momentum_buffer"};
    case OptimizerKind::kAdagrad: return {"sum"};
    case OptimizerKind::kAdam: return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::kAdamW: return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::kLars: return {"momentum_buffer"};
    case OptimizerKind::kLamb: return {"exp_avg", "exp_avg_sq"};
  }
  return {};
}

std::string_view NameOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return "sgd";
    case OptimizerKind::kMomentum: return "momentum";
    case OptimizerKind::kAdagrad: return "adagrad";
    case OptimizerKind::kAdam: return "adam";
    case OptimizerKind::kAdamW: return "adamw";
    case OptimizerKind::kLars: return "lars";
    case OptimizerKind::kLamb: return "lamb";
    case OptimizerKind::kExternal: return "external";
  }
  return "";
}

Result<std::vector<TensorSpec>> TensorsOf(const Catalog& catalog, const std::vector<std::string>& states) {
  std::vector<TensorSpec> tensors = catalog.tensors();
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors) names.insert(tensor.name);
  for (const std::string& state : states) {
    for (const TensorSpec& of : catalog.tensors()) {
      TensorSpec tensor = of;
      tensor.name += "/" + state;
      if (!names.insert(tensor.name).second) return Invalid("the model has a tensor named \"" + tensor.name + "\"");
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

SafetensorsMetadata MetadataOf(const RunSnapshots& run, const ManifestRecord& manifest) {
  return {{"step", std::to_string(manifest.id.version.value)},
          {"generation", std::to_string(manifest.id.generation.value)},
          {"updates", std::to_string(manifest.parameters.updates)},
          {"optimizer", std::string(NameOf(run.config.optimizer.kind))},
          {"job", run.config.name()}};
}

// Returns the model's list of tensors: the one that a worker has declared or, if none has yet, would declare.
Result<Catalog> CatalogOf(const RunSnapshots& run, const ManifestRecord& manifest) {
  if (run.catalog) return *run.catalog;
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, CatalogOfJob(run.config));
  CAPSTAN_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadPartHeader(run, manifest, 0));
  if (header.catalog_hash == catalog.hash()) return catalog;
  return Corrupt("the snapshot is of another model than the job's");
}

// Writes the parts of a snapshot, each block to its place in the file.
class PartWriter {
 public:
  PartWriter(const RunSnapshots& run, const Catalog& catalog, std::uint32_t arrays, SafetensorsWriter* out)
      : run_(run), catalog_(catalog), arrays_(arrays), out_(out) {}

  Status Write(const SnapshotHeader& header) {
    if (header.array_count < arrays_) {
      return Corrupt(server::NameOfPart(header.id, header.part) + " lacks the optimizer's state");
    }
    for (const SnapshotHeader::BlockEntry& entry : header.blocks) CAPSTAN_RETURN_IF_ERROR(WriteBlock(header, entry));
    return {};
  }
  std::size_t blocks() const { return written_.size(); }

 private:
  Status WriteBlock(const SnapshotHeader& header, const SnapshotHeader::BlockEntry& entry) {
    const bool fits = entry.block < catalog_.blocks().size() && entry.count == catalog_.blocks()[entry.block].count;
    if (!fits || !written_.insert(entry.block).second) {
      return Corrupt(server::NameOfPart(header.id, header.part) + ": block " + std::to_string(entry.block) +
                     " is not one of the model's, or twice there");
    }
    bytes_.resize(std::size_t{entry.count} * sizeof(float));
    for (std::uint32_t array = 0; array < arrays_; ++array) {
      CAPSTAN_RETURN_IF_ERROR(server::ReadVerified(*run_.parts, header, entry, array, bytes_));
      const std::uint64_t begin = array * catalog_.element_count() + catalog_.blocks()[entry.block].flat_offset;
      CAPSTAN_RETURN_IF_ERROR(out_->Write(begin, bytes_));
    }
    return {};
  }

  const RunSnapshots& run_;
  const Catalog& catalog_;
  const std::uint32_t arrays_;
  SafetensorsWriter* const out_;
  std::vector<std::byte> bytes_;
  std::set<BlockIndex> written_;
};

}  // namespace

Result<Exported> ExportSnapshot(const RunSnapshots& run, const ManifestRecord& manifest, const std::string& path,
                                ExportContents contents) {
  const bool with_state = contents == ExportContents::kWeightsAndState;
  const std::vector<std::string> states =
      with_state ? StateNames(run.config.optimizer.kind) : std::vector<std::string>();
  CAPSTAN_ASSIGN_OR_RETURN(const Catalog catalog, CatalogOf(run, manifest));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<TensorSpec> tensors, TensorsOf(catalog, states));
  CAPSTAN_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(path, tensors, with_state ? MetadataOf(run, manifest) : SafetensorsMetadata()));
  const auto arrays = static_cast<std::uint32_t>(1 + states.size());
  PartWriter parts(run, catalog, arrays, &writer);
  for (ShardIndex part = 0; part < manifest.digests.size(); ++part) {
    CAPSTAN_ASSIGN_OR_RETURN(const SnapshotHeader header, ReadPartHeader(run, manifest, part));
    CAPSTAN_RETURN_IF_ERROR(parts.Write(header));
  }
  if (parts.blocks() != catalog.blocks().size()) {
    return Corrupt("the snapshot has " + std::to_string(parts.blocks()) + " of the model's " +
                   std::to_string(catalog.blocks().size()) + " blocks");
  }
  CAPSTAN_RETURN_IF_ERROR(writer.Commit());
  return Exported{.tensors = tensors.size(), .bytes = arrays * catalog.element_count() * sizeof(float)};
}

}  // namespace capstan::cli
