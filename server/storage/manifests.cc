#include "server/storage/manifests.h"

#include <algorithm>
#include <cstddef>

namespace capstan::server {

namespace {

template <class Record>
const Record* LastOf(const std::vector<LogRecord>& records) {
  const auto found = std::find_if(records.rbegin(), records.rend(),
                                  [](const LogRecord& record) { return std::holds_alternative<Record>(record); });
  return found == records.rend() ? nullptr : &std::get<Record>(*found);
}

// Whether the last Record comes after the last Other.
template <class Record, class Other>
bool IsLater(const std::vector<LogRecord>& records) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (std::holds_alternative<Record>(*record)) return true;
    if (std::holds_alternative<Other>(*record)) return false;
  }
  return false;
}

template <class Record>
void CopyLast(const std::vector<LogRecord>& from, std::vector<LogRecord>* to) {
  if (const Record* const last = LastOf<Record>(from)) to->push_back(*last);
}

}  // namespace

void DropOldManifests(std::uint32_t keep, std::vector<ManifestRecord>* manifests) {
  const std::size_t most = std::max<std::size_t>(2, keep);
  if (manifests->size() <= most) return;
  manifests->erase(manifests->begin(), manifests->end() - static_cast<std::ptrdiff_t>(most));
}

std::vector<ManifestRecord> ManifestsOf(const std::vector<LogRecord>& records, std::uint32_t keep) {
  std::vector<ManifestRecord> manifests;
  for (const LogRecord& record : records) {
    if (const auto* const recover = std::get_if<RecoverRecord>(&record)) {
      // Snapshots that are newer than the recovered one cannot be used any more.
      while (!manifests.empty() && manifests.back().id != recover->snapshot) manifests.pop_back();
    } else if (const auto* const manifest = std::get_if<ManifestRecord>(&record)) {
      manifests.push_back(*manifest);
      DropOldManifests(keep, &manifests);
    }
  }
  return manifests;
}

std::vector<LogRecord> RecordsInForce(const std::vector<LogRecord>& records, std::uint32_t keep) {
  std::vector<LogRecord> rest;
  CopyLast<JobRecord>(records, &rest);
  CopyLast<CatalogRecord>(records, &rest);
  CopyLast<TermRecord>(records, &rest);
  CopyLast<RecoverRecord>(records, &rest);
  if (IsLater<RunningRecord, RecoverRecord>(records)) CopyLast<RunningRecord>(records, &rest);
  for (ManifestRecord& manifest : ManifestsOf(records, keep)) rest.emplace_back(std::move(manifest));
  if (IsLater<DoneRecord, JobRecord>(records)) CopyLast<DoneRecord>(records, &rest);
  return rest;
}

std::vector<LogRecord> WithoutSnapshots(const std::vector<LogRecord>& records, std::uint32_t keep,
                                        const std::vector<SnapshotId>& gone) {
  std::vector<LogRecord> rest = RecordsInForce(records, keep);
  const auto is_gone = [&](const ManifestRecord& manifest) {
    return std::find(gone.begin(), gone.end(), manifest.id) != gone.end();
  };
  const auto* const newest = LastOf<ManifestRecord>(rest);
  const bool begins_again = newest != nullptr && is_gone(*newest);
  std::erase_if(rest, [&](const LogRecord& record) {
    const auto* const manifest = std::get_if<ManifestRecord>(&record);
    return (manifest != nullptr && is_gone(*manifest)) || std::holds_alternative<RunningRecord>(record) ||
           (begins_again && std::holds_alternative<DoneRecord>(record));
  });
  const auto recover = std::find_if(
      rest.begin(), rest.end(), [](const LogRecord& record) { return std::holds_alternative<RecoverRecord>(record); });
  if (recover != rest.end()) {
    rest.insert(recover + 1, RunningRecord{std::get<RecoverRecord>(*recover).generation, {}});  // with no shards
  }
  return rest;
}

}  // namespace capstan::server
