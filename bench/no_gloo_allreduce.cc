// The functions of gloo_allreduce.h for a build without Gloo.
#include "bench/gloo_allreduce.h"

namespace capstan::bench {

Status CheckGloo() { return Unsupported("this build has no Gloo; install libgloo-dev and build again"); }

Result<PlainAllReduce> ConnectGlooAllReduce(int, int, const std::string&) { return CheckGloo(); }

}  // namespace capstan::bench
