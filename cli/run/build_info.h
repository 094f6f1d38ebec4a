// ThisBuild, VersionLine, BuildOfThis: what this binary was built from, and how.
#pragma once

#include <cstdint>
#include <string>

#include "monitoring/metric_families.h"

namespace capstan::cli {

monitoring::BuildInfo ThisBuild();
// Returns a line such as "capstan 0.1.0 (commit)".
std::string VersionLine(const char* program);

struct Build {
  std::string version, commit;
  std::int64_t commit_time = 0;  // seconds since 1970; 0: unknown
  std::string type;              // of CMake, such as "Release"
  std::string sanitizers;        // empty: none
  std::string compiler, libzmq;  // with their versions
};
Build BuildOfThis();

}  // namespace capstan::cli
