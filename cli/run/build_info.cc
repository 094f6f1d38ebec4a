#include "cli/run/build_info.h"

#include <string>

namespace capstan::cli {

monitoring::BuildInfo ThisBuild() { return {CAPSTAN_VERSION, CAPSTAN_COMMIT}; }

std::string VersionLine(const char* program) {
  return std::string(program) + " " + CAPSTAN_VERSION + " (" + CAPSTAN_COMMIT + ")";
}

}  // namespace capstan::cli
