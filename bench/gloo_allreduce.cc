#include "bench/gloo_allreduce.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdint>
#include <exception>
#include <memory>

namespace capstan::bench {

Status CheckGloo() { return {}; }

Result<PlainAllReduce> ConnectGlooAllReduce(int rank, int size, const std::string& folder) {
  try {
    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    const auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    return PlainAllReduce([context, call = std::uint32_t{0}](std::span<float> data) mutable -> Status {
      try {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setOutput(data.data(), data.size());
        options.setReduceFunction(
            [](void* sum, const void* a, const void* b, std::size_t count) { gloo::sum<float>(sum, a, b, count); });
        options.setTag(++call);
        gloo::allreduce(options);
        return {};
      } catch (const std::exception& failed) {
        return Unreachable(std::string("Gloo's own all-reduce: ") + failed.what());
      }
    });
  } catch (const std::exception& failed) {
    return Unreachable(std::string("Gloo's own context: ") + failed.what());
  }
}

}  // namespace capstan::bench
