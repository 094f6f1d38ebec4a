// PrintJson, PrintJsonLine: print a command's result for programs.
//
// Kind:   functions; they write to stdout. Bytes that are not UTF-8 are replaced.
#pragma once

#include <nlohmann/json.hpp>

namespace capstan::cli {

// Prints it over several lines, for commands with one result.
void PrintJson(const nlohmann::ordered_json& json);
// Prints it as one line, for commands with a result again and again.
void PrintJsonLine(const nlohmann::ordered_json& json);

}  // namespace capstan::cli
