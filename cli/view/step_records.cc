#include "cli/view/step_records.h"

#include <algorithm>
#include <cmath>

#include "cli/run/followed_file.h"
#include "cli/run/json_fields.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOwn = "metrics.";

std::optional<double> ValueIn(const Json& object, const std::string& key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_null()) return std::nan("");
  return found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Returns the record in a line; nothing if it has none.
std::optional<Json> RecordIn(std::string_view line) {
  Json record = ParseJson(line);
  return CountIn(record, "step") ? std::optional(std::move(record)) : std::nullopt;
}

std::uint64_t GenerationOf(const Json& record) { return CountIn(record, "generation").value_or(0); }

}  // namespace

std::optional<double> ValueAt(const Json& record, const std::string& key) {
  const std::optional<double> value = ValueIn(record, key);
  if (value || !key.starts_with(kOwn)) return value;
  const auto own = record.find("metrics");
  return own == record.end() ? std::nullopt : ValueIn(*own, key.substr(kOwn.size()));
}

void StepRecords::Survey() {
  FollowedFile file(path_);
  file.Read([this](std::string_view line) {
    const std::optional<Json> record = RecordIn(line);
    if (!record) {
      ++bad_lines_;
      return;
    }
    ++records_;
    NoteGeneration(*record);
    NoteColumns(*record);
  });
}

void StepRecords::NoteGeneration(const Json& record) {
  const std::uint64_t generation = GenerationOf(record);
  if (last_generation_ == generation) return;
  last_generation_ = generation;
  if (first_steps_.contains(generation)) return;
  const std::uint64_t step = *CountIn(record, "step");
  while (!first_steps_.empty() && first_steps_.rbegin()->first < generation && first_steps_.rbegin()->second >= step) {
    first_steps_.erase(std::prev(first_steps_.end()));
  }
  first_steps_.emplace(generation, step);
}

// A record is not the last of its step if a later generation began with this step or an earlier one.
bool StepRecords::Counts(const Json& record) const {
  const auto later = first_steps_.upper_bound(GenerationOf(record));
  return later == first_steps_.end() || *CountIn(record, "step") < later->second;
}

void StepRecords::NoteColumns(const Json& record) {
  for (const auto& [name, value] : record.items()) {
    if (value.is_primitive()) NoteColumn(name);
    if (name != "metrics" || !value.is_object()) continue;
    for (const auto& [own, number] : value.items()) NoteColumn(std::string(kOwn) + own);
  }
}

void StepRecords::NoteColumn(const std::string& name) {
  if (columns_.size() < kColumnsMax && std::find(columns_.begin(), columns_.end(), name) == columns_.end())
    columns_.push_back(name);
}

void StepRecords::ForEach(const Take& take) const {
  FollowedFile file(path_);
  std::uint64_t left = records_;  // those that were written since then are not surveyed
  file.Read([&](std::string_view line) {
    const std::optional<Json> record = left > 0 ? RecordIn(line) : std::nullopt;
    if (!record) return;
    --left;
    if (Counts(*record)) take(*record, line);
  });
}

}  // namespace capstan::cli
