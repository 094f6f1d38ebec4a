#include "cli/run/build_info.h"

#include <string>

#include "common/wire/zmq_endpoint.h"

namespace capstan::cli {

monitoring::BuildInfo ThisBuild() { return {CAPSTAN_VERSION, CAPSTAN_COMMIT}; }

std::string VersionLine(const char* program) {
  return std::string(program) + " " + CAPSTAN_VERSION + " (" + CAPSTAN_COMMIT + ")";
}

Build BuildOfThis() {
  Build build{CAPSTAN_VERSION, CAPSTAN_COMMIT, CAPSTAN_COMMIT_TIME, CAPSTAN_BUILD_TYPE, CAPSTAN_SANITIZERS, {}, {}};
  build.compiler = CAPSTAN_COMPILER;
  build.libzmq = ZmqVersion();
  return build;
}

}  // namespace capstan::cli
