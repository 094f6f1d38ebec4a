// Before the first test, looks for a CUDA device. If there is none, the program says so and exits with 77, so the test
// is reported as skipped. The thread that runs the tests gets the same floating-point control as capstan's own threads.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "common/base/float_control.h"
#include "tests/catch.h"

namespace {

class DeviceRequired : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    int devices = 0;
    if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
      std::fprintf(stderr, "SKIPPED: no CUDA device (%s)\n", cudaGetErrorString(status));
      std::exit(77);
    }
  }

 private:
  const capstan::FloatControl control_;
};
CATCH_REGISTER_LISTENER(DeviceRequired)

}  // namespace
