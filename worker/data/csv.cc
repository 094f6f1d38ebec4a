#include "worker/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "worker/data/file_bytes.h"

namespace capstan::train {

namespace {

constexpr std::size_t kHeadBytes = 4096;                     // bytes that decide whether a file is text
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some programs put it at the start of UTF-8 files

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

// Returns the text up to the next separator, and removes both from `rest`.
std::string_view TakeUntil(char separator, std::string_view* rest) {
  const std::size_t end = rest->find(separator);
  const std::string_view piece = rest->substr(0, end);
  *rest = end == std::string_view::npos ? std::string_view() : rest->substr(end + 1);
  return piece;
}

class CsvReader {
 public:
  CsvReader(std::string name, const CsvOptions& options) : name_(std::move(name)), options_(options) {}

  Result<FeatureTable<float>> Read(std::string_view text) {
    CAPSTAN_RETURN_IF_ERROR(CheckText(text));
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    while (!text.empty()) {
      const std::string_view line = Trim(TakeUntil('\n', &text));
      if (++line_ <= options_.header_lines || line.empty()) continue;
      if (columns_ == 0) CAPSTAN_RETURN_IF_ERROR(ReadShape(line));
      CAPSTAN_RETURN_IF_ERROR(ReadRow(line));
    }
    if (columns_ == 0) return Invalid(name_ + ": no rows in it");
    table_.classes = static_cast<std::uint32_t>(*std::max_element(table_.labels.begin(), table_.labels.end())) + 1;
    return std::move(table_);
  }

 private:
  // Checks that the file is text. Programs and images have control bytes near the start; the only control bytes in text
  // are white space.
  Status CheckText(std::string_view text) const {
    const std::string_view head = text.substr(0, kHeadBytes);
    for (std::size_t i = 0; i < head.size(); ++i) {
      const auto byte = static_cast<unsigned char>(head[i]);
      if (byte >= 0x20 && byte != 0x7F) continue;
      if (head[i] == '\n' || head[i] == '\r' || head[i] == '\t') continue;
      return Invalid(name_ + ": is not text: its byte " + std::to_string(i) + " is " +
                     PrintableLine(head.substr(i, 1)) +
                     "; [data] kind = \"csv\" reads rows of numbers in ASCII or UTF-8, packed by gzip or not");
    }
    return {};
  }

  std::string Where() const { return name_ + ":" + std::to_string(line_) + ": "; }

  Status ReadShape(std::string_view line) {
    columns_ = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    first_row_line_ = line_;
    if (columns_ < 2 || columns_ > kCsvColumnsMax) {
      return Invalid(Where() + std::to_string(columns_) + (columns_ == 1 ? " column" : " columns") +
                     " separated by commas; wanted 2 to " + std::to_string(kCsvColumnsMax) + ", one of them the class");
    }
    const auto columns = static_cast<std::int64_t>(columns_);
    const std::int64_t label = options_.label_column + (options_.label_column < 0 ? columns : 0);
    if (label < 0 || label >= columns) {
      return Invalid(Where() + "[data] label_column = " + std::to_string(options_.label_column) +
                     ", and the table has " + std::to_string(columns_) + " columns");
    }
    label_ = static_cast<std::size_t>(label);
    table_.features = static_cast<std::uint32_t>(columns_ - 1);
    return {};
  }

  Status ReadRow(std::string_view line) {
    const std::size_t found = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    if (found != columns_) {
      return Invalid(Where() + std::to_string(found) + " values, and line " + std::to_string(first_row_line_) +
                     " has " + std::to_string(columns_) + "; is the file truncated?");
    }
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::string_view text = Trim(TakeUntil(',', &line));
      double value = 0;
      CAPSTAN_RETURN_IF_ERROR(ReadNumber(text, column, &value));
      if (column == label_) {
        CAPSTAN_RETURN_IF_ERROR(AddLabel(text, value));
      } else {
        table_.inputs.push_back(static_cast<float>(value));
      }
    }
    return {};
  }

  Status ReadNumber(std::string_view text, std::size_t column, double* value) {
    const std::string_view digits = text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
    const std::string shown = "column " + std::to_string(column) + " is \"" + PrintableLine(text.substr(0, 40)) + "\"";
    if (text.empty() || error != std::errc() || end != digits.data() + digits.size()) {
      const bool is_first = line_ == first_row_line_;
      return Invalid(Where() + shown + ", not a number" +
                     (is_first ? "; if the first lines are a header, set [data] header_lines" : ""));
    }
    const float stored = static_cast<float>(*value);
    if (!std::isfinite(stored) || !std::isfinite(stored / options_.scale)) {
      return Invalid(Where() + shown + "; a value must be finite in 32 bits: remove the row or fill the gap");
    }
    return {};
  }

  Status AddLabel(std::string_view text, double value) {
    if (value < 0 || value >= kCsvClassesMax || value != std::floor(value)) {
      return Invalid(Where() + "the label in column " + std::to_string(label_) + " is " +
                     PrintableLine(text.substr(0, 40)) +
                     "; classes are whole numbers from 0. Is [data] label_column right?");
    }
    table_.labels.push_back(static_cast<std::int32_t>(value));
    return {};
  }

  const std::string name_;
  const CsvOptions options_;
  FeatureTable<float> table_;
  std::size_t columns_ = 0, label_ = 0;
  std::uint64_t line_ = 0, first_row_line_ = 0;
};

}  // namespace

Result<FeatureTable<float>> ReadCsv(const std::filesystem::path& path, const CsvOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, ReadUnpacked(path));
  auto table = CsvReader(path.string(), options).Read(bytes);
  if (table.ok()) table->fingerprint = Hash64(std::as_bytes(std::span(bytes)));
  return table;
}

}  // namespace capstan::train
