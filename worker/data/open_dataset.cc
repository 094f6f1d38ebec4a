// OpenDataset: opens the kind of data that the job file names.
#include "common/config/job/data_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "worker/data/cifar10.h"
#include "worker/data/csv.h"
#include "worker/data/dataset.h"
#include "worker/data/file_bytes.h"
#include "worker/data/idx.h"
#include "worker/data/synthetic_dataset.h"
#include "worker/data/text_dataset.h"
#include "worker/data/token_dataset.h"

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

template <class Input>
Result<std::unique_ptr<Dataset>> MakeDataset(FeatureTable<Input> table, const DataSection& data, const fs::path& path) {
  CAPSTAN_ASSIGN_OR_RETURN(SplitTable split, SplitTable::Create(table.labels.size(), data.validation, path.string()));
  if (table.classes < 2) return Invalid(path.string() + ": every label is 0; two classes or more are needed to train");
  const auto scale = static_cast<float>(data.scale);
  return std::unique_ptr<Dataset>(new FeatureDataset<Input>(std::move(table), std::move(split), scale));
}

Result<std::unique_ptr<Dataset>> OpenIdx(const DataSection& data, const fs::path& images, const fs::path& data_root) {
  CAPSTAN_ASSIGN_OR_RETURN(const fs::path labels, ResolveDataPath(data_root, data.labels));
  CAPSTAN_ASSIGN_OR_RETURN(auto table, ReadIdx(images, labels));
  return MakeDataset(std::move(table), data, images);
}

Result<std::unique_ptr<Dataset>> OpenCsv(const DataSection& data, const fs::path& path) {
  const CsvOptions options{data.label_column, data.header_lines, static_cast<float>(data.scale)};
  CAPSTAN_ASSIGN_OR_RETURN(auto table, ReadCsv(path, options));
  table.image = ImageOf(data);
  const std::uint32_t wanted = data.image.empty() ? table.features : data.row_features();
  if (table.features != wanted) {
    return Invalid(path.string() + ": its rows have " + std::to_string(table.features) +
                   " numbers beside the label, and [data] image has " + std::to_string(wanted));
  }
  return MakeDataset(std::move(table), data, path);
}

}  // namespace

ImageShape ImageOf(const DataSection& data) {
  return data.image.empty() ? ImageShape{} : ImageShape{data.image[0], data.image[1], data.image[2]};
}

Result<std::unique_ptr<Dataset>> OpenDataset(const JobConfig& config, const fs::path& data_root) {
  if (config.data.kind == DataKind::kSynthetic) return CreateSynthetic(config);
  CAPSTAN_ASSIGN_OR_RETURN(const fs::path path, ResolveDataPath(data_root, config.data.path));
  switch (config.data.kind) {
    case DataKind::kText: return TextDataset::Open(path, config.data, config.model.context);
    case DataKind::kTokens: return TokenDataset::Open(path, config.data, config.model.context);
    case DataKind::kIdx: return OpenIdx(config.data, path, data_root);
    case DataKind::kCsv: return OpenCsv(config.data, path);
    case DataKind::kCifar10: return Cifar10Dataset::Open(path, config.data);
    case DataKind::kSynthetic: break;
  }
  return Unsupported("[data] kind: not built yet");
}

}  // namespace capstan::train
