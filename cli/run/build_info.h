// ThisBuild, VersionLine: the version and commit that this binary was built from.
#pragma once

#include <string>

#include "monitoring/metric_families.h"

namespace capstan::cli {

monitoring::BuildInfo ThisBuild();
// Returns a line such as "capstan 0.1.0 (commit)".
std::string VersionLine(const char* program);

}  // namespace capstan::cli
