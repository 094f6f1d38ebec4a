// The target reads the input as a CSV table of numbers. Either the table is refused, or its rows can be written and
// read back unchanged. The first byte chooses the label's column, the second the number of header lines.
#include "worker/data/csv.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

using Table = train::FeatureTable<float>;

// Prints the table as CSV, with each row's label in front.
std::string PrintTable(const Table& table) {
  std::string text;
  std::array<char, 32> number{};
  for (std::size_t row = 0; row < table.labels.size(); ++row) {
    text += std::to_string(table.labels[row]);
    for (std::size_t i = 0; i < table.features; ++i) {
      std::snprintf(number.data(), number.size(), ",%.9g", static_cast<double>(table.inputs[row * table.features + i]));
      text += number.data();
    }
    text += '\n';
  }
  return text;
}

void CheckTable(const Table& table, std::size_t bytes) {
  Require(!table.labels.empty() && table.labels.size() <= bytes, "a row takes a byte or more");
  Require(table.inputs.size() == table.labels.size() * table.features, "all rows have one width");
  for (const std::int32_t label : table.labels) {
    Require(label >= 0 && static_cast<std::uint32_t>(label) < table.classes, "a label is one of the classes");
  }
  for (const float input : table.inputs) Require(std::isfinite(input), "a value is finite");
}

void RunCsv(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const train::CsvOptions options{.label_column = static_cast<signed char>(bytes[0]),
                                  .header_lines = static_cast<unsigned char>(bytes[1]) % 4U};
  bytes.remove_prefix(2);
  const InputFile input(bytes);
  const Result<Table> table = train::ReadCsv(input.path(), options);
  if (!table.ok()) return RequireReason(table.status(), input.path());
  const std::string printed = PrintTable(*table);
  if (!bytes.starts_with("\x1f\x8b")) CheckTable(*table, bytes.size());
  const InputFile written(printed);
  const Result<Table> again = train::ReadCsv(written.path(), {.label_column = 0});
  Require(again.ok(), "a table that is accepted can be written and read: " + again.status().message());
  Require(again->inputs == table->inputs && again->labels == table->labels, "a table is read as it was written");
  Require(again->classes == table->classes && again->features == table->features, "a table keeps its shape");
}

const Registered csv_target({"csv", RunCsv});

}  // namespace
}  // namespace capstan::fuzz
