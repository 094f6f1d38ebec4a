// PrintRows: what a command found, as JSON or as a table of the same columns.
//
// Kind:   function; writes to stdout.
// Why:    one list for both: no column is in the table only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace capstan::cli {

// `rows`: an array of objects with the same keys. `output`: "json" or "table", which shows nothing for no rows.
void PrintRows(const nlohmann::ordered_json& rows, const std::string& output);

}  // namespace capstan::cli
