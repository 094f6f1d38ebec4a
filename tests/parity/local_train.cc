// Trains a synchronous job in one process, without messages: calls the computing parts (slots, sums along the tree,
// updates of blocks, the verdict) one after the other. A cluster must end with the same bits. Writes:
//   metrics.jsonl       {"step", "loss", "lr", "grad_norm", "samples"} per step
//   final.safetensors
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/data/encoding.h"
#include "common/wire/messages/prepared.h"
#include "server/shard/block_store.h"
#include "tests/parity/local_job.h"
#include "update/verdict.h"
#include "worker/client/slot_sums.h"
#include "worker/train/slot_computer.h"

namespace capstan::parity {

namespace {

std::vector<std::uint32_t> Numbers(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

class LocalTraining {
 public:
  explicit LocalTraining(LocalJob& job)
      : job_(job),
        catalog_(*job.catalog),
        computer_(job.config, *job.data, *job.model),
        store_(catalog_, Numbers(catalog_.blocks().size()), MakeOptimizerRule(job.config.optimizer),
               job.config.job.seed, server::BlockStore::Begin::kVersion0, EncodingOf(job.config)),
        order_(catalog_, 1),
        gradients_(catalog_.element_count() * sizeof(float)),
        weights_(catalog_.element_count()),
        narrow_weights_(EncodingOf(job.config) == Encoding::kFp32 ? 0 : catalog_.element_count()),
        parameters_(ParametersOf(job.config, Step{0}, 0)) {
    CopyWeights();
  }

  bool done() const { return parameters_.stop; }
  std::span<const float> weights() const { return weights_; }

  Result<StepRecord> RunStep() {
    Prepared prepared;
    prepared.step = step_;
    for (std::vector<double>* squares : AllSquares(&prepared.report)) squares->resize(catalog_.segments().size());
    client::SlotSums sums(Numbers(job_.config.job.slots), ReductionTree(job_.config.job.slots));
    for (SlotIndex slot : sums.slots()) prepared.report.slots.push_back(RunSlot(slot, &sums));
    CAPSTAN_CHECK(sums.parts().size() == 1 && sums.parts().front().gradient);
    PrepareBlocks(sums.parts().front(), &prepared.report);
    return Finish(std::move(prepared));
  }

 private:
  SlotReport RunSlot(SlotIndex slot, client::SlotSums* sums) {
    const std::span<const std::uint64_t> samples = computer_.Samples(step_, slot);
    SlotReport report;
    report.slot = slot;
    report.samples = samples.size();
    BufferRef gradient = samples.empty() ? BufferRef() : gradients_.Take();
    sums->BeginSlot(samples.size(), gradient);
    if (!samples.empty()) {
      const train::WeightsView weights{weights_.data(), narrow_weights_.empty() ? nullptr : narrow_weights_.data()};
      const Result<nn::LossSums> loss =
          computer_.Gradient(step_, slot, samples, parameters_.loss_scale, weights, gradient.As<float>(), {});
      CAPSTAN_CHECK(loss.ok());
      for (const Block& block : catalog_.blocks()) {
        RoundTo(block.EncodingIn(EncodingOf(job_.config)), {gradient.As<float>() + block.flat_offset, block.count});
      }
      report.loss_sum = loss->loss;
      report.predictions = static_cast<std::uint64_t>(loss->count);
    }
    sums->RangeReady(0, catalog_.element_count());
    return report;
  }

  // Returns those vectors of sums of squares that the job's optimizer fills.
  std::vector<std::vector<double>*> AllSquares(PrepareReport* report) const {
    if (!TakesTrustRatio(job_.config.optimizer.kind)) return {&report->segment_squares};
    return {&report->segment_squares, &report->weight_squares, &report->direction_squares};
  }
  static TrustSquares TrustSquaresOf(const Block& block, PrepareReport* report) {
    if (report->weight_squares.empty()) return {};
    return {std::span(report->weight_squares).subspan(block.first_segment, block.segment_count),
            std::span(report->direction_squares).subspan(block.first_segment, block.segment_count)};
  }
  UpdateScalars Scalars(float clip = 1.0F, std::span<const float> trust_ratios = {}) const {
    return {.step = parameters_.updates + 1,
            .mean_scale =
                static_cast<float>(1.0 / (static_cast<double>(samples_) * static_cast<double>(parameters_.loss_scale))),
            .statistic_scale = static_cast<float>(1.0 / static_cast<double>(samples_)),
            .clip = clip,
            .trust_ratios = trust_ratios};
  }
  std::vector<GroupRule> Rules() const {
    return MakeGroupRules(MakeOptimizerRule(job_.config.optimizer), parameters_.learning_rate, {});
  }

  void PrepareBlocks(const client::SlotSums::PartialSum& whole, PrepareReport* report) {
    samples_ = whole.samples;
    for (BlockIndex i = 0; i < catalog_.blocks().size(); ++i) {
      const Block& block = catalog_.blocks()[i];
      const StagedInput input{whole.node, whole.samples, whole.gradient->data() + block.flat_offset * sizeof(float)};
      store_.Prepare(i, std::span(&input, 1), ReductionTree(job_.config.job.slots), Rules(), Scalars(),
                     std::span(report->segment_squares).subspan(block.first_segment, block.segment_count),
                     TrustSquaresOf(block, report));
    }
  }

  Result<StepRecord> Finish(Prepared prepared) {
    const auto decide = [&](std::uint32_t attempt) {
      return Decide(job_.config, catalog_, order_, {&prepared}, attempt, parameters_);
    };
    Verdict verdict = decide(0);
    for (std::uint32_t attempt = 1; verdict.kind == Verdict::Kind::kRedo; ++attempt) {
      for (BlockIndex i = 0; i < catalog_.blocks().size(); ++i) {
        store_.PrepareAgain(i, Rules(), Scalars(verdict.clip, verdict.trust_ratios),
                            TrustSquaresOf(catalog_.blocks()[i], &prepared.report));
      }
      verdict = decide(attempt);
    }
    if (verdict.kind == Verdict::Kind::kStop) return Invalid(verdict.reason);
    verdict.action == StepAction::kApply ? store_.PublishPrepared() : store_.DropPrepared();
    CopyWeights();
    parameters_ = verdict.next;
    step_ = step_.Next();
    return verdict.record;
  }

  void CopyWeights() {
    for (BlockIndex i = 0; i < catalog_.blocks().size(); ++i) {
      const Block& block = catalog_.blocks()[i];
      const auto* values = reinterpret_cast<const float*>(store_.Weights(i).data);
      std::copy_n(values, block.count, weights_.begin() + static_cast<std::ptrdiff_t>(block.flat_offset));
      const Encoding encoding = block.EncodingIn(EncodingOf(job_.config));
      if (encoding == Encoding::kFp32) continue;
      Encode(encoding, {values, block.count}, reinterpret_cast<std::byte*>(narrow_weights_.data() + block.flat_offset));
    }
  }

  LocalJob& job_;
  const Catalog& catalog_;
  train::SlotComputer computer_;
  server::BlockStore store_;
  const SegmentOrder order_;
  BufferPool gradients_;
  std::vector<float> weights_;
  std::vector<std::uint16_t> narrow_weights_;  // the weights in the job's encoding; empty: fp32
  StepParameters parameters_;
  Step step_;
  std::uint64_t samples_ = 0;
};

Status LocalTrain(LocalJob& job, const std::string& folder) {
  if (job.config.mode() != Mode::kSync) return Invalid("only mode = \"sync\" has one order of events");
  LocalTraining training(job);
  std::ofstream metrics(folder + "/metrics.jsonl");
  metrics.precision(17);
  while (!training.done()) {
    CAPSTAN_ASSIGN_OR_RETURN(const StepRecord record, training.RunStep());
    metrics << "{\"step\": " << record.step.value << ", \"loss\": " << record.loss
            << ", \"lr\": " << record.learning_rate << ", \"grad_norm\": " << record.gradient_norm
            << ", \"samples\": " << record.samples << "}\n";
  }
  metrics.close();
  if (!metrics) return Unreachable(folder + ": cannot write metrics.jsonl");
  return WriteTensors(folder + "/final.safetensors", *job.catalog, training.weights());
}

}  // namespace

}  // namespace capstan::parity

int main(int argc, char** argv) { return capstan::parity::RunProgram(argc, argv, capstan::parity::LocalTrain); }
