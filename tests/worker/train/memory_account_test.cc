// The memory that a worker will need, as counted before it starts, and the message if there is too little.
#include "worker/train/memory_account.h"

#include <algorithm>

#include "common/config/job/allreduce_section.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/reduction_tree.h"
#include "tests/catch.h"
#include "worker/data/sampler.h"
#include "worker/machine/machine_sums.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kMiB = 1 << 20;

EditableJobConfig GptJob() {
  EditableJobConfig config;
  config.job.global_batch = 64;
  config.job.slots = 2;
  config.model.kind = ModelKind::kGpt;
  config.model.layers = 6;
  config.model.heads = 2;
  config.model.width = 64;
  config.model.context = 128;
  config.data.kind = DataKind::kSynthetic;
  config.data.samples = 1000;
  config.data.vocabulary = 1024;
  config.cluster.workers = 2;
  return config;
}

struct Counted {
  MemoryAccount account;
  std::uint64_t elements = 0;
};

Counted Count(const JobConfig& config, int threads = 1) {
  kernels::CpuContext context(threads);
  const auto data = OpenDataset(config, ".");
  REQUIRE(data.ok());
  const auto model = CreateJobModel(context, config, (*data)->spec());
  REQUIRE(model.ok());
  const auto make = [&](const nn::ModelShape& shape) {
    return CreateJobModel(context, config.worker.precision, shape);
  };
  const auto account = CountMemory(context, config, **data, **model, make);
  REQUIRE(account.ok());
  Counted counted{*account};
  for (const TensorSpec& tensor : (*model)->tensors()) counted.elements += tensor.ElementCount();
  return counted;
}

// For all choices of neighbouring workers as the workers of a machine: the most parts that one worker contributes, and
// the most sums that are pushed for the machine.
struct LocalMost {
  std::size_t parts = 0, sums = 0;
};

LocalMost MostOfMachines(SlotIndex slots, std::uint32_t workers) {
  LocalMost most;
  for (std::uint32_t first = 0; first < workers; ++first) {
    std::vector<MachineHead> heads;
    for (std::uint32_t last = first; last < workers; ++last) {
      MachineHead head{{}, {}, true, {}};
      const SampleRange share = SlotShare(slots, workers, last);
      std::vector<SlotIndex> mine;
      for (std::uint64_t slot = share.first; slot < share.last; ++slot) mine.push_back(static_cast<SlotIndex>(slot));
      for (Node node : ReductionTree(slots).Cover(mine)) head.parts.push_back({node, 1});
      heads.push_back(head);
      const MachinePlan plan = PlanMachineSums(heads, slots);
      most.parts = std::max(most.parts, head.parts.size());
      most.sums = std::max(most.sums, plan.sums.size());
    }
  }
  return most;
}

TEST_CASE("what workers of a machine add up counts, whichever of the job's they are", "[memory]") {
  for (SlotIndex slots : {2U, 3U, 4U, 6U, 7U, 12U, 16U}) {
    for (std::uint32_t workers = 2; workers <= slots; ++workers) {
      EditableJobConfig config = GptJob();
      config.job.slots = slots;
      config.job.global_batch = 10 * slots;
      config.cluster.workers = workers;
      const Counted alone = Count(config);
      config.allreduce.local_reduce = LocalReduce::kGloo;
      config.allreduce.bucket_mib = 1;
      const Counted local = Count(config);
      const LocalMost most = MostOfMachines(slots, workers);
      REQUIRE(local.elements * sizeof(float) > kMiB);
      INFO(slots << " slots, " << workers << " workers: " << most.parts << " parts, " << most.sums << " sums");
      CHECK(local.account.gradient_buffers >= alone.account.gradient_buffers + most.sums);
      CHECK(local.account.gradient_buffers <= alone.account.gradient_buffers + most.sums + 2);
      const std::uint64_t gathered = most.parts * (workers + 1) * kMiB, spare = 4 * kMiB;  // of up to 16 slots
      CHECK(local.account.messages > alone.account.messages + gathered);
      CHECK(local.account.messages <= alone.account.messages + gathered + spare);
    }
  }
}

TEST_CASE("weights and gradients count in the numbers that they have", "[memory]") {
  EditableJobConfig config = GptJob();
  const Counted wide = Count(config);
  CHECK(wide.account.weights == 4 * wide.elements);
  CHECK(wide.account.never_written == 0);
  CHECK(wide.account.gradients == wide.account.gradient_buffers * 4 * wide.elements);
  config.worker.precision = Precision::kBf16;
  const Counted narrow = Count(config);
  CHECK(narrow.account.weights == 2 * wide.elements);
  CHECK(narrow.account.never_written == 4 * wide.elements);
  CHECK(narrow.account.gradients == wide.account.gradients);
  CHECK(narrow.account.activations < wide.account.activations * 6 / 10);
}

TEST_CASE("gradients that a worker holds at once grow with the logarithm of its slots", "[memory]") {
  EditableJobConfig config = GptJob();
  config.job.global_batch = 64;
  const auto buffers = [&](std::uint32_t slots, std::uint32_t workers) {
    config.job.slots = slots;
    config.cluster.workers = workers;
    return Count(config).account.gradient_buffers;
  };
  CHECK(buffers(2, 2) == 2);  // one that is computed, and one in flight
  CHECK(buffers(64, 64) == 2);
  CHECK(buffers(2, 1) == 2);
  CHECK(buffers(4, 1) == 3);
  CHECK(buffers(64, 1) == 7);
  config.job.aggregation = Aggregation::kMedian;
  CHECK(buffers(64, 1) == 64);  // nothing is added, so each slot's own is kept
  config.job.mode = Mode::kAsync;
  CHECK(buffers(64, 1) == 2);  // a round is one slot
}

TEST_CASE("a micro-batch is the largest part of the largest slot", "[memory]") {
  EditableJobConfig config = GptJob();
  config.job.global_batch = 65;
  CHECK(Count(config).account.micro_batch == 33);
  config.worker.accumulate = 4;
  CHECK(Count(config).account.micro_batch == 9);
  config.worker.accumulate = 100;
  CHECK(Count(config).account.micro_batch == 1);
  config.worker.accumulate = 1;
  config.data.samples = 11;
  config.data.validation = 0;
  CHECK(Count(config).account.micro_batch == 6);  // the data has no more samples
}

TEST_CASE("validation counts where its batches are larger than those of little training data", "[memory]") {
  EditableJobConfig config = GptJob();
  config.job.slots = 1;
  config.job.global_batch = 512;
  config.data.validation = 0.98;
  config.job.eval_every = 0;
  CHECK(Count(config).account.micro_batch == 20);
  config.job.eval_every = 1;
  CHECK(Count(config).account.micro_batch == 512);
  config.worker.accumulate = 4;
  CHECK(Count(config).account.micro_batch == 128);
  config.worker.accumulate = 1;
  config.job.global_batch = 5000;
  CHECK(Count(config).account.micro_batch == 980);  // validation has no more samples
}

EditableJobConfig ImageJob(ModelKind kind) {
  EditableJobConfig config = GptJob();
  config.job.global_batch = 16;
  config.model.kind = kind;
  config.model.channels = {1024, 8};
  config.model.depth = 18;
  config.model.width = 128;
  config.data.features = 0;
  config.data.image = {16, 16, 3};
  config.data.classes = 4;
  return config;
}

// Trains one micro-batch of so many samples; returns the bytes of workspace that the context has allocated by then.
std::size_t WorkspaceOfTraining(const JobConfig& config, int threads, std::uint64_t samples) {
  kernels::CpuContext context(threads);
  const auto data = OpenDataset(config, ".");
  REQUIRE(data.ok());
  const auto model = CreateJobModel(context, config, (*data)->spec());
  REQUIRE(model.ok());
  std::size_t elements = 0;
  for (const TensorSpec& tensor : (*model)->tensors()) elements += tensor.ElementCount();
  const std::vector<float> weights(elements, 0.01F), inputs(samples * (*data)->spec().features, 0.5F);
  const std::vector<std::uint16_t> narrow(elements, 0x3c00);
  const std::vector<std::int32_t> targets(samples);
  std::vector<float> gradients(elements);
  const nn::Batch batch{
      .samples = static_cast<std::int64_t>(samples), .inputs = inputs, .tokens = {}, .targets = targets};
  REQUIRE((*model)->Train({weights.data(), narrow.data()}, gradients.data(), batch, {}, {}, {}).ok());
  return context.workspace_bytes();
}

TEST_CASE("scratch is no less than convolutions take, and not much more where they are wide", "[memory][long]") {
  for (const ModelKind kind : {ModelKind::kConvnet, ModelKind::kResnet}) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      for (const int threads : {1, 3}) {
        EditableJobConfig config = ImageJob(kind);
        config.worker.precision = precision;
        const MemoryAccount account = Count(config, threads).account;
        const std::size_t taken = WorkspaceOfTraining(config, threads, account.micro_batch);
        CAPTURE(kind, precision, threads, taken);
        CHECK(account.scratch >= taken);
        CHECK(account.scratch < 2 * taken);
      }
    }
  }
}

TEST_CASE("activations are counted with and without recompute, whichever is set", "[memory]") {
  EditableJobConfig config = GptJob();
  const MemoryAccount kept = Count(config).account;
  config.worker.recompute = true;
  const MemoryAccount again = Count(config).account;
  CHECK(again.activations < kept.activations);
  CHECK(kept.activations_otherwise == again.activations);
  CHECK(again.activations_otherwise == kept.activations);
  CHECK_THAT(kept.ToString(), Contains("with recompute "));
  CHECK_THAT(again.ToString(), Contains(" without recompute"));
  config.model = {};
  config.model.kind = ModelKind::kResnet;
  config.data.image = {16, 16, 3};
  const MemoryAccount resnet = Count(config).account;
  CHECK(resnet.activations < resnet.activations_otherwise);
  CHECK_THAT(resnet.ToString(), Contains(" without recompute"));
}

TEST_CASE("a worker starts with what it needs, and not with less", "[memory]") {
  EditableJobConfig config = GptJob();
  config.worker.precision = Precision::kBf16;
  const MemoryAccount account = Count(config).account;
  CHECK(CheckMemory(account, {}).ok());
  CHECK(CheckMemory(account, {{account.resident(), "this machine"}, {}}).ok());
  CHECK_FALSE(CheckMemory(account, {{account.resident() - 1, "this machine"}, {}}).ok());
  CHECK(CheckMemory(account, {{}, {account.resident() + account.never_written}}).ok());
  CHECK_FALSE(CheckMemory(account, {{}, {account.resident() + account.never_written - 1}}).ok());
}

TEST_CASE("too little memory is refused with what is needed, what there is, and what to change", "[memory]") {
  const MemoryAccount account = Count(GptJob()).account;
  const Status status = CheckMemory(account, {{account.resident() - kMiB, "this machine"}, {}});
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(),
             Contains("the model needs ") && Contains("weights ") && Contains("2 gradients ") &&
                 Contains("activations of a micro-batch of 32 samples ") && Contains("this machine has ") &&
                 Contains(" free; lower [job] global_batch, raise") && Contains("[worker] accumulate, which is 1") &&
                 Contains("set [worker] recompute = true"));
}

TEST_CASE("what would not help is not advised", "[memory]") {
  EditableJobConfig config = GptJob();
  config.job.global_batch = config.job.slots;
  config.worker.recompute = true;
  const MemoryAccount smallest = Count(config).account;
  const std::string message = CheckMemory(smallest, {{smallest.resident() - 1, "this machine"}, {}}).message();
  CHECK_THAT(message, !Contains("global_batch") && !Contains("recompute =") && Contains("; start it where"));
  const MemoryAccount account = Count(GptJob()).account;
  CHECK_THAT(CheckMemory(account, {{account.weights, "this machine"}, {}}).message(),
             Contains("use a smaller [model]") && !Contains("global_batch"));
}

TEST_CASE("of a limited address space, what threads reserve is no reason to refuse", "[memory]") {
  const MemoryAccount account = Count(GptJob()).account;
  const AddressSpace enough{account.resident() + 9 * kMiB, account.resident() + 5 * kMiB, 9 * kMiB};
  CHECK(CheckMemory(account, {{}, enough}).ok());
  const AddressSpace small{account.weights, 400 * kMiB, 9 * kMiB};
  const Status status = CheckMemory(account, {{}, small});
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("(ulimit -v) is limited to ") && Contains("9.0 MiB in use, and 400 MiB with") &&
                                   Contains("or raise ulimit -v") && Contains("lower [job] global_batch") &&
                                   !Contains("gradients alone"));
}

TEST_CASE("where an allocation fails under a limited address space, that limit is named", "[memory]") {
  const MemoryAccount account = Count(GptJob()).account;
  const AddressSpace space{500 * kMiB, 490 * kMiB, 20 * kMiB};
  CHECK_THAT(OutOfMemory(account, {{100 * kMiB, "this machine"}, space}).message(),
             Contains("is limited to 500 MiB: it has 20 MiB in use, and 490 MiB with") && !Contains("this machine"));
  const AddressSpace wide{std::uint64_t{1} << 40, 490 * kMiB, 20 * kMiB};
  CHECK_THAT(OutOfMemory(account, {{100 * kMiB, "this machine"}, wide}).message(),
             Contains("this machine has 100 MiB"));
}

TEST_CASE("memory that runs out in the middle is refused with the same figures", "[memory]") {
  const MemoryAccount account = Count(GptJob()).account;
  const Status status = OutOfMemory(account, {{kMiB, "this machine"}, {}});
  CHECK_THAT(status.message(), Contains("no more memory was given") && Contains(account.ToString()) &&
                                   Contains("this machine has 1.0 MiB free"));
}

}  // namespace
}  // namespace capstan::train
