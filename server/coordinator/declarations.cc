#include "server/coordinator/declarations.h"

#include <algorithm>

#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

namespace {

bool Equal(const CatalogRecord& a, const CatalogRecord& b) {
  return a.tensors == b.tensors && a.numeric_class == b.numeric_class &&
         a.numeric_fingerprint == b.numeric_fingerprint && a.data_fingerprint == b.data_fingerprint;
}

}  // namespace

std::vector<Declaration> DeclarationsOf(const Membership& members) {
  std::vector<Declaration> all;
  for (const auto& [session, worker] : members.workers()) {
    if (!worker.declared) continue;
    const bool ranked = worker.rank != 0;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Declaration& one) {
      return one.record == worker.declared && one.ranked == ranked;
    });
    if (same != all.end()) {
      same->workers.push_back(&worker);
    } else {
      all.push_back({worker.declared, ranked, {&worker}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Declaration& a, const Declaration& b) {
    return a.workers.size() > b.workers.size();
  });
  return all;
}

CatalogRecord RecordOf(const Join& join) {
  return {join.catalog, join.numeric_class, join.numeric_fingerprint, join.data_fingerprint};
}

std::shared_ptr<const CatalogRecord> Declare(const Join& join, Instant now, Instant lease, Membership* members) {
  CatalogRecord record = RecordOf(join);
  const std::vector<Declaration> all = DeclarationsOf(*members);
  for (const Declaration& one : all) {
    if (Equal(*one.record, record)) return one.record;
  }
  if (all.size() >= kDifferentMax) {
    const auto old = std::find_if(all.rbegin(), all.rend(), [&](const Declaration& one) {
      return one.workers.size() == 1 && now - one.workers.front()->joined >= lease;
    });
    if (old == all.rend()) return nullptr;
    members->Remove(old->workers.front()->session);
  }
  return std::make_shared<const CatalogRecord>(std::move(record));
}

std::string DifferenceOf(const CatalogRecord& theirs, const CatalogRecord& job) {
  if (std::string difference = DescribeDifference(job.tensors, theirs.tensors); !difference.empty())
    return difference + "; start it with the same build and job file";
  if (job.numeric_class != theirs.numeric_class || job.numeric_fingerprint != theirs.numeric_fingerprint) {
    return "computes with other bits: it is of class \"" + theirs.numeric_class + "\" (probe " +
           std::to_string(theirs.numeric_fingerprint) + "), the job's is \"" + job.numeric_class + "\" (probe " +
           std::to_string(job.numeric_fingerprint) + "); use machines of one kind and one build";
  }
  if (job.data_fingerprint == theirs.data_fingerprint) return "";
  return "reads other data (fingerprint " + std::to_string(theirs.data_fingerprint) + ") than the job (" +
         std::to_string(job.data_fingerprint) + "); check data.path on that machine";
}

std::string DisagreementText(const Membership& members) {
  const std::vector<Declaration> all = DeclarationsOf(members);
  if (all.size() < 2) return "";
  const Declaration& most = all[0];
  const Declaration& other = all[1];
  const std::size_t more = most.workers.size() - 1;
  const std::string with = "\"" + most.workers.front()->name + "\"" +
                           (more == 0 ? "" : " and " + Count(more, "more worker"));
  const std::string difference = DifferenceOf(*other.record, *most.record);
  return "\"" + other.workers.front()->name + "\" does not agree with " + with + ": " +
         (difference.empty() ? std::string("one has a rank, and the other has none") : difference);
}

}  // namespace capstan::server
