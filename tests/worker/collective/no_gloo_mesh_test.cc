// The error of CreateGlooMesh in a build without Gloo.
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

TEST_CASE("where Gloo is not installed, a mesh between processes is refused with what to install", "[collective]") {
  InProcessRendezvous rendezvous(1);
  const Status status = CreateGlooMesh({0, 1, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kUnsupported);
  CHECK_THAT(status.message(), Catch::Matchers::Contains("install libgloo-dev"));
}

}  // namespace
}  // namespace capstan::collective
