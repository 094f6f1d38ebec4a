#include "server/manifests.h"

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
      // What is newer than the snapshot gone back to cannot be used.
      while (!manifests.empty() && manifests.back().id != recover->snapshot) manifests.pop_back();
    } else if (const auto* const manifest = std::get_if<ManifestRecord>(&record)) {
      manifests.push_back(*manifest);
      DropOldManifests(keep, &manifests);
    }
  }
  return manifests;
}

std::vector<LogRecord> WithoutSnapshots(const std::vector<LogRecord>& records, std::uint32_t keep,
                                        const std::vector<SnapshotId>& gone) {
  std::vector<LogRecord> rest;
  CopyLast<JobRecord>(records, &rest);
  CopyLast<CatalogRecord>(records, &rest);
  CopyLast<TermRecord>(records, &rest);
  CopyLast<SessionRecord>(records, &rest);
  CopyLast<RecoverRecord>(records, &rest);
  if (const auto* const recover = LastOf<RecoverRecord>(records)) {
    rest.push_back(RunningRecord{recover->generation, {}});  // of nobody
  }
  const std::vector<ManifestRecord> manifests = ManifestsOf(records, keep);
  const auto is_gone = [&](const ManifestRecord& manifest) {
    return std::find(gone.begin(), gone.end(), manifest.id) != gone.end();
  };
  for (const ManifestRecord& manifest : manifests) {
    if (!is_gone(manifest)) rest.push_back(manifest);
  }
  if (manifests.empty() || !is_gone(manifests.back())) CopyLast<DoneRecord>(records, &rest);
  return rest;
}

}  // namespace capstan::server
