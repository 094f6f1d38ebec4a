// Where Gloo is not installed.
#include "tests/bench/gloo_allreduce.h"

namespace capstan::bench {

Result<PlainAllReduce> ConnectGlooAllReduce(int, int, const std::string&) {
  return Unsupported("this build has no Gloo; install libgloo-dev and build again");
}

}  // namespace capstan::bench
