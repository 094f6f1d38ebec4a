// PrintRows: prints a command's results as JSON or as a table with the same columns.
//
// Kind:   function; writes to stdout.
// Why:    both forms print the same list, so the table has no column that JSON lacks.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace capstan::cli {

// Prints `rows`, an array of objects with the same keys. `output`: "json" or "table". Without rows, "table" prints
// nothing.
void PrintRows(const nlohmann::ordered_json& rows, const std::string& output);

}  // namespace capstan::cli
