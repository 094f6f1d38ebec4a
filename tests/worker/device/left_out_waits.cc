// Runs a model's steps on the emulated device, and a machine's sums, again and again, each time without one of their
// waits. If the result is the same without a wait, and the process did not die, the wait was not needed, or the tests
// do not notice that it is missing: the test fails. Streams work as late as CUDA allows, so a result that is not waited
// for is not there yet.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "tests/emulation/stream.h"
#include "tests/emulation/waits.h"
#include "tests/kernels/numbers.h"
#include "worker/collective/rendezvous.h"
#include "worker/device/create_device_model.h"
#include "worker/device/device_adder.h"

namespace capstan::train {
namespace {

using emulation::kNoWait;

// The exit code of a process that has done its steps.
constexpr int kDone = 0;

struct Subject {
  const char* name;
  Precision precision;
  nn::ModelShape shape;
  std::int64_t features, context, classes;  // features 0: tokens
  bool sums = false;                        // gradients stay on the device, where a group of one adds them up
};

std::vector<Subject> Subjects() {
  const std::vector<std::int64_t> hidden(18, 6);  // more tensors in flight at a time than there are chunks
  return {
      {"mlp", Precision::kFp32, nn::MlpShape{.features = 5, .classes = 3, .hidden = hidden}, 5, 1, 3},
      {"gpt", Precision::kBf16,
       nn::GptShape{.vocabulary = 11, .context = 6, .layers = 1, .heads = 2, .width = 16, .dropout = 0.1}, 0, 6, 11},
      {"mlp that sums", Precision::kFp32, nn::MlpShape{.features = 5, .classes = 3, .hidden = {6, 6}}, 5, 1, 3, true},
      {"mlp of 16 bits that sums", Precision::kBf16, nn::MlpShape{.features = 5, .classes = 3, .hidden = {6, 6}}, 5, 1,
       3, true}};
}

// The results of a child process, in memory that it shares with its parent.
struct Outcome {
  std::uint64_t hash = 0;
  std::int64_t verdicts = 0;
  emulation::Waits waits;
};

// Returns positive weights, so that no ReLU is dead and each weight counts.
std::vector<float> Weights(const std::vector<TensorSpec>& tensors, std::int64_t count, std::uint64_t seed) {
  std::vector<float> weights = kernels::RandomNumbers<float>(count, seed);
  auto weight = weights.begin();
  for (const TensorSpec& tensor : tensors) {
    const bool is_one = tensor.init.kind == InitKind::kOnes;  // scales of norms
    for (std::uint64_t i = 0; i < tensor.ElementCount(); ++i, ++weight) {
      *weight = (is_one ? 1.0F : 0.0F) + 0.3F * std::abs(*weight);
    }
  }
  return weights;
}

// A sequence of steps in which one wait can be left out.
class Course {
 public:
  virtual ~Course() = default;
  // Allocates the memory that the steps need, and leaves other numbers in it.
  virtual void WarmUp() = 0;
  // Takes the steps. Returns the hash of all results.
  virtual std::uint64_t Take() = 0;
  // Returns the number of verdicts: waits that only report whether work succeeded. Without such a wait the result is
  // the same, if the work has succeeded.
  virtual std::int64_t verdicts() const { return 0; }
};

// The steps of a model: a round of two micro-batches, of which the second one delivers the gradients, and the next
// round's evaluation. Or, if the subject sums on the device, two rounds of two slots.
class Steps final : public Course {
 public:
  explicit Steps(const Subject& subject)
      : model_(CreateDeviceModel({}, subject.precision, subject.shape).value()),
        inputs_(kernels::RandomNumbers<float>(2 * kSamples * subject.features, 1)),
        targets_(kernels::RandomIndices(2 * kSamples * subject.context, static_cast<std::int32_t>(subject.classes), 2)),
        features_(subject.features),
        context_(subject.context) {
    if (features_ == 0) tokens_ = targets_;
    for (const TensorSpec& tensor : model_->tensors()) {
      offsets_.push_back(offsets_.back() + static_cast<std::ptrdiff_t>(tensor.ElementCount()));
    }
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      wide_[round] = Weights(model_->tensors(), offsets_.back(), 3 + round);
      narrow_[round].resize(wide_[round].size());
      if (subject.precision == Precision::kFp32) continue;
      Encode(Encoding::kBf16, wide_[round], reinterpret_cast<std::byte*>(narrow_[round].data()));
    }
    is_narrow_ = subject.precision != Precision::kFp32;
    gradients_ = kernels::Poison<float>(offsets_.back());
    arrived_ = gradients_;
    if (!subject.sums) return;
    collective::InProcessRendezvous rendezvous(1);
    ModelDevice* const device = model_->device().value();
    group_ = device->CreateGroup({}, &rendezvous, Soon()).value();
    sum_ = device->Sum(arrived_, subject.precision == Precision::kFp32 ? Encoding::kFp32 : Encoding::kBf16).value();
  }

  void WarmUp() override {
    (void)model_->Train(View(0), gradients_.data(), Batch(1), {.seed = 4}, {}, {});
    (void)model_->Evaluate(View(0), Batch(1), {});
    if (sum_ != nullptr) (void)TakeSum();
  }

  // Adds up two slots, in two rounds: the second round writes to the memory that the first one has read.
  std::uint64_t TakeSum() {
    std::uint64_t hash = 0;
    for (std::uint64_t round = 1; round <= 2; ++round) {
      nn::Hooks hooks;  // each range is read before the host waits for anything else, which would hide a missing wait
      hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
        Check(sum_->Await(Reduce(first, last)));
        const std::span<const float> all(arrived_);
        hash = Hash64(std::as_bytes(all.subspan(Place(first), Place(last + 1) - Place(first))), hash);
      };
      sum_->BeginSlot(3, SlotSum::kReplace);
      Add(model_->Train(View(round), gradients_.data(), Batch(0), {.seed = 5, .step = round}, {}, {}));
      sum_->BeginSlot(2, SlotSum::kAdd);
      Add(model_->Train(View(round), gradients_.data(), Batch(1), {.seed = 6, .step = round}, {}, hooks));
      sum_->EndSlot();
    }
    return Hash64(std::as_bytes(std::span(losses_)), hash);
  }

  std::uint64_t Take() override {
    if (sum_ != nullptr) return TakeSum();
    nn::Hooks hooks;
    hooks.gradient_ready = [this](TensorIndex first, TensorIndex last) {  // the client would send it now
      std::copy(gradients_.begin() + offsets_[first], gradients_.begin() + offsets_[last + 1],
                arrived_.begin() + offsets_[first]);
    };
    nn::TrainOptions options{.gradient_scale = 0.5, .sample_share = 0.5, .deliver = false};
    Add(model_->Train(View(1), gradients_.data(), Batch(0), {.seed = 5}, options, {}));
    options.mode = nn::GradientMode::kAdd;
    options.deliver = true;
    Add(model_->Train(View(1), gradients_.data(), Batch(1), {.seed = 5, .micro_batch = 1}, options, hooks));
    Add(model_->Evaluate(View(2), Batch(0), {}));
    return Hash64(std::as_bytes(std::span(losses_)), Hash64(std::as_bytes(std::span(arrived_))));
  }

 private:
  static constexpr std::int64_t kSamples = 3;
  static constexpr std::size_t kRounds = 3;

  static collective::Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }
  static void Check(const Status& status) { CAPSTAN_CHECK(status.ok()); }
  std::size_t Place(TensorIndex tensor) const { return static_cast<std::size_t>(offsets_[tensor]); }
  DeviceSum::Copy Reduce(TensorIndex first, TensorIndex last) {
    const SumRange range{Place(first), Place(last + 1) - Place(first)};
    const collective::DeviceGroup::Ticket ticket = group_->SubmitAllReduce(sum_->ToReduce(range), Soon()).value();
    Check(group_->OrderAfter(ticket, sum_->stream()));
    return sum_->Return(range);
  }
  WeightsView View(std::size_t round) const {
    return {wide_[round].data(), is_narrow_ ? narrow_[round].data() : nullptr, round + 1};
  }
  nn::Batch Batch(std::size_t part) const {
    const auto inputs = static_cast<std::size_t>(kSamples * features_);
    const auto targets = static_cast<std::size_t>(kSamples * context_);
    const std::span<const float> all_inputs(inputs_);
    const std::span<const std::int32_t> all_tokens(tokens_), all_targets(targets_);
    return {kSamples, all_inputs.subspan(part * inputs, inputs),
            tokens_.empty() ? all_tokens : all_tokens.subspan(part * targets, targets),
            all_targets.subspan(part * targets, targets)};
  }
  void Add(const Result<nn::LossSums>& sums) {
    losses_.push_back(sums.value().loss);
    losses_.push_back(static_cast<double>(sums.value().correct));
  }

  const std::unique_ptr<JobModel> model_;
  std::unique_ptr<collective::DeviceGroup> group_;
  DeviceSum* sum_ = nullptr;
  const std::vector<float> inputs_;
  const std::vector<std::int32_t> targets_;
  const std::int64_t features_, context_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::ptrdiff_t> offsets_ = {0};
  std::vector<float> wide_[kRounds], gradients_, arrived_;
  std::vector<std::uint16_t> narrow_[kRounds];
  bool is_narrow_ = false;
  std::vector<double> losses_;
};

// Sums at the first worker of a machine: two steps of several buckets. The parts are a node of two slots and a 16-bit
// leaf.
class Sums final : public Course {
 public:
  Sums()
      : catalog_(Catalog::Create({{"a", {70}, {}, true}, {"b", {3, 50}, {}, true}}, 32).value()),
        buckets_(CutBuckets(catalog_, 300)) {
    collective::InProcessRendezvous rendezvous(1);
    const AdderOptions options{&catalog_, Encoding::kBf16, 2 * buckets_.front().count};
    const auto soon = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    adder_ = CreateDeviceAdder(0, options).value();
    CAPSTAN_CHECK(adder_->Form({}, &rendezvous, soon).ok());
  }
  void WarmUp() override { (void)Add(90); }
  std::uint64_t Take() override { return Add(1) ^ Add(40); }
  std::int64_t verdicts() const override { return 2 * static_cast<std::int64_t>(buckets_.size()); }  // the group's

 private:
  std::uint64_t Add(std::uint64_t seed) {
    const auto count = static_cast<std::int64_t>(catalog_.element_count());
    std::vector<float> left = kernels::RandomNumbers<float>(count, seed);
    std::vector<float> right = kernels::RandomNumbers<float>(count, seed + 1), both = kernels::Poison<float>(count);
    for (const Block& block : catalog_.blocks()) {
      const std::span<float> numbers(right.data() + block.flat_offset, block.count);
      Encode(Encoding::kBf16, numbers, reinterpret_cast<std::byte*>(numbers.data()));
    }
    const auto bytes_of = [](const std::vector<float>& flat) {
      return reinterpret_cast<const std::byte*>(flat.data());
    };
    const MachineStep step{{{{0, 0, {0, 2}, 3}, {0, 1, {2, 3}, 5}}, {{{0, 3}, 8}}, 2},
                           {{0, 2}, {2, 3}},
                           {bytes_of(left), bytes_of(right)},
                           {both.data()}};
    std::uint64_t hash = seed;
    const auto take = [&](BlockIndex index) {
      const Block& block = catalog_.blocks()[index];
      hash = Hash64(std::as_bytes(std::span(both).subspan(block.flat_offset, block.count)), hash);
    };
    std::size_t finished = 0;
    for (std::size_t begun = 0; begun < buckets_.size();) {
      CAPSTAN_CHECK(adder_->Begin(step, buckets_[begun++]).ok());
      for (; begun - finished > adder_->ahead_max(); ++finished) CAPSTAN_CHECK(adder_->Finish(take).ok());
    }
    for (; finished < buckets_.size(); ++finished) CAPSTAN_CHECK(adder_->Finish(take).ok());
    return hash;
  }

  const Catalog catalog_;
  const std::vector<Bucket> buckets_;
  std::unique_ptr<DeviceBucketAdder> adder_;
};

using CourseMaker = std::function<std::unique_ptr<Course>()>;

// Runs a course in a child process, which may die because wait number `left_out` is missing. Returns the status that
// waitpid reports.
int RunCourse(const CourseMaker& make, std::int64_t left_out, Outcome* outcome) {
  *outcome = {};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Course> course = make();
    course->WarmUp();
    emulation::RunLate(true);
    emulation::CountWaits(left_out);
    const std::uint64_t hash = course->Take();
    *outcome = {hash, course->verdicts(), emulation::StopCounting()};
    _exit(kDone);  // memory damaged by the missing wait dies with the process
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

const char* ToString(emulation::Waiting waiting) {
  switch (waiting) {
    case emulation::Waiting::kStreamForEvent: return "of a stream for an event";
    case emulation::Waiting::kHostForEvent: return "of the host for an event";
    case emulation::Waiting::kHostForStream: return "of the host for a stream";
  }
  return "";
}

// Leaves out each wait in turn, and returns the number of errors: waits whose absence nothing notices. As many waits of
// the host for an event as the course has verdicts (see Course::verdicts) must go unnoticed, and no other one may.
std::int64_t LeaveOutEach(const char* name, const CourseMaker& make, Outcome* outcome) {
  if (RunCourse(make, kNoWait, outcome) != kDone) {
    std::printf("%s: the steps fail though no wait is left out\n", name);
    return 1;
  }
  const Outcome whole = *outcome;
  std::int64_t missed = 0, verdicts = 0;
  for (std::int64_t wait = 0; wait < whole.waits.count; ++wait) {
    if (RunCourse(make, wait, outcome) != kDone || outcome->hash != whole.hash) continue;
    ++(outcome->waits.left_out == emulation::Waiting::kHostForEvent && verdicts < whole.verdicts ? verdicts : missed);
    std::printf("%s: wait %lld of %lld, %s, was left out and nothing noticed it\n", name, static_cast<long long>(wait),
                static_cast<long long>(whole.waits.count), ToString(outcome->waits.left_out));
  }
  std::printf("%s: %lld waits were left out, %lld of them unnoticed besides %lld verdicts\n", name,
              static_cast<long long>(whole.waits.count), static_cast<long long>(missed),
              static_cast<long long>(verdicts));
  return missed + (whole.verdicts - verdicts);
}

}  // namespace
}  // namespace capstan::train

int main() {
  using namespace capstan::train;
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  void* const shared = mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  std::int64_t missed = 0;
  auto* const outcome = static_cast<Outcome*>(shared);
  for (const Subject& subject : Subjects()) {
    missed += LeaveOutEach(
        subject.name, [&] { return std::make_unique<Steps>(subject); }, outcome);
  }
  missed += LeaveOutEach(
      "sums of a machine", [] { return std::make_unique<Sums>(); }, outcome);
  return missed == 0 ? 0 : 1;
}
