// The functions of allreduce_bench.h and train_bench.h for a build without the built-in trainer.
#include "bench/allreduce_bench.h"
#include "bench/train_bench.h"

namespace capstan::bench {
namespace {

Status NoTrainer() {
  return Unsupported(
      "this build has no built-in trainer (CAPSTAN_TRAINER=OFF), which this benchmark measures; build "
      "capstan with -DCAPSTAN_TRAINER=ON");
}

}  // namespace

Result<Plan> PlanAllReduce(const AllReduceOptions&) { return NoTrainer(); }

Result<Plan> PlanTraining(const TrainOptions&) { return NoTrainer(); }

}  // namespace capstan::bench
