// StepRecords: reads the records of metrics.jsonl, and knows which of them count.
//
// Kind:   a value. Survey reads the file once; ForEach reads it again.
// Limits: one record in memory, kColumnsMax names of fields, and a number for each recovery that counts.
// Why:    a step that was done again after a recovery has several records, of which only the last counts. The file may
//         be larger than the memory.
#pragma once

#include <nlohmann/json.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cli {

// Returns the number at `key` in a record; "metrics.NAME" is a metric of the user's own. One that is not finite is NaN;
// nothing: the record has no number there.
std::optional<double> ValueAt(const nlohmann::json& record, const std::string& key);

class StepRecords {
 public:
  static constexpr std::size_t kColumnsMax = 256;

  explicit StepRecords(std::string path) : path_(std::move(path)) {}

  // Reads the whole file. `lines` with no valid record are counted and left out.
  void Survey();
  std::uint64_t records() const { return records_; }      // all of them
  std::uint64_t bad_lines() const { return bad_lines_; }  // lines without a record
  // The names of the fields that are no lists or objects, in the order of their first record,
  // "metrics.NAME" for metrics of the user's own.
  const std::vector<std::string>& columns() const { return columns_; }

  // Calls `take` with each record that counts, and the line that it was read from, in order.
  using Take = std::function<void(const nlohmann::json& record, std::string_view line)>;
  void ForEach(const Take& take) const;

 private:
  void NoteGeneration(const nlohmann::json& record);
  void NoteColumns(const nlohmann::json& record);
  void NoteColumn(const std::string& name);
  bool Counts(const nlohmann::json& record) const;

  std::string path_;
  std::uint64_t records_ = 0, bad_lines_ = 0;
  std::vector<std::string> columns_;
  // The first step of a generation, by generation, without those behind which a later one went back: so the steps rise.
  std::map<std::uint64_t, std::uint64_t> first_steps_;
  std::optional<std::uint64_t> last_generation_;
};

}  // namespace capstan::cli
