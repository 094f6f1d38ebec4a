#include "cli/run/print_json.h"

#include <cstdio>

namespace capstan::cli {
namespace {

using nlohmann::ordered_json;

void PrintIndented(const ordered_json& value, int indent) {
  std::printf("%s\n", value.dump(indent, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

void PrintJson(const ordered_json& value) { PrintIndented(value, 2); }
void PrintJsonLine(const ordered_json& value) { PrintIndented(value, -1); }

}  // namespace capstan::cli
