#include "cli/snapshot/rows.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/run/print_json.h"
#include "common/base/utf8.h"

namespace capstan::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string CellOf(const Json& value) {
  if (value.is_string()) return PrintableLine(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.is_null() ? "-" : value.dump();
  std::string list;
  for (const Json& element : value) list += (list.empty() ? "" : "; ") + CellOf(element);
  return list.empty() ? "-" : list;
}

void PrintLine(const std::vector<std::string>& cells, const std::vector<int>& widths) {
  for (std::size_t i = 0; i + 1 < cells.size(); ++i) std::printf("%-*s  ", widths[i], cells[i].c_str());
  std::printf("%s\n", cells.empty() ? "" : cells.back().c_str());
}

}  // namespace

void PrintRows(const Json& rows, const std::string& output) {
  if (output == "json") {
    PrintJson(rows);
    return;
  }
  if (rows.empty()) return;
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [key, value] : rows.front().items()) lines.front().push_back(key);
  for (const Json& row : rows) {
    lines.emplace_back();
    for (const auto& [key, value] : row.items()) lines.back().push_back(CellOf(value));
  }
  std::vector<int> widths(lines.front().size());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], static_cast<int>(line[i].size()));
  }
  for (const std::vector<std::string>& line : lines) PrintLine(line, widths);
}

}  // namespace capstan::cli
