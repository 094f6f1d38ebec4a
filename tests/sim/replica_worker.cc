#include "tests/sim/replica_worker.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "common/config/job_config.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "tests/sim/model.h"

namespace capstan::sim {

using session::Session;
using Commands = train::AllReduceCommands;

namespace {

constexpr std::uint64_t kBlocksInBucket = 2;

std::vector<train::Bucket> BucketsOf(const ClusterOptions& options, const Catalog& catalog) {
  return train::CutBuckets(catalog, kBlocksInBucket * options.block_elements * sizeof(float));
}

Status Over() { return {Code::kStale, "the round is over"}; }
Status Lost() { return Unreachable("a member is gone"); }

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace

ReplicaWorker::ReplicaWorker(Settings settings, const JobConfig& config, Session* session)
    : settings_(std::move(settings)),
      session_(session),
      replica_(*settings_.catalog, config),
      buckets_(BucketsOf(*settings_.options, *settings_.catalog)),
      core_(*settings_.catalog, buckets_, replica_.array_count() * replica_.array(0).size_bytes()),
      sum_(settings_.catalog->element_count()) {}

// ---- rounds --------------------------------------------------------------------------------------------------------

void ReplicaWorker::TakeWork(Session::WorkReady& ready) {
  round_ = {};
  round_.generation = ready.work.generation;
  Mislead(&ready.work);
  core_.BeginRound(ready);
}

void ReplicaWorker::TakeVoid(std::uint64_t round) {
  if (!idle() && core_.work().round == round) round_.over = true;
}

void ReplicaWorker::Mislead(session::RoundWork* work) {
  session::StepTerms& terms = work->terms;
  const auto believe = [&](Flaw flaw, const std::optional<train::ReplicaVersion::Name>& name) {
    if (settings_.flaw == flaw && name && name->version == terms.version) terms.made_in = name->made_in;
  };
  believe(Flaw::kReplicaOfAnyGeneration, core_.version().present());
  believe(Flaw::kMadeInAnyGeneration, core_.version().built());
  if (settings_.flaw != Flaw::kGroupKept) return;
  const auto kept = kept_for_.find(terms.made_in);
  if (kept != kept_for_.end()) terms.made_in = kept->second;
  train::ReplicaVersion version = core_.version();
  if (!core_.has_group() || version.Take(terms) == train::ReplicaVersion::Taking::kNot) return;
  if (work->generation != core_.generation()) kept_for_[work->generation] = core_.generation();
  work->generation = core_.generation();
}

void ReplicaWorker::Run(Instant now, Outbox* out) {
  now_ = now;
  out_ = out;
  for (bool goes_on = true; goes_on && pending_;) {
    std::optional<Commands> next = std::visit([this](const auto& body) { return GoOn(body); }, *pending_);
    if (!next) return;
    pending_.reset();
    Carry(*std::move(next));
    if (pending_) goes_on = now_ >= until_;
  }
  if (pending_) return;
  if (core_.awaits_addresses()) {
    if (round_.over) return Carry(core_.Fail(Over()));
    if (known_) return Carry(core_.TakeGroup(*std::exchange(known_, {})));
    return Carry(core_.Tick(now));
  }
  if (core_.is_settling()) return Settle();
  if (core_.is_computing()) return Compute();
}

void ReplicaWorker::Settle() {
  if (round_.over) return Carry(core_.EndRound(Over()));
  if (round_.settled) return;
  round_.settled = true;
  CountTaking();
  Carry(core_.Settle(now_));
  if (!core_.awaits_generation()) return;
  settings_.count(core_.work().group.empty() ? "round of a group that is given up already"
                                             : "worker without a group waits for another generation");
}

void ReplicaWorker::CountTaking() {
  using Taking = train::ReplicaVersion::Taking;
  const session::RoundWork& work = core_.work();
  train::ReplicaVersion version = core_.version();
  const std::optional<train::ReplicaVersion::Name> built = version.built();
  const bool is_next = built && built->version == work.terms.version;
  const Taking taking = version.Take(work.terms);
  if (is_next && taking == Taking::kNot && built->made_in != work.terms.made_in) {
    settings_.count("version made in a generation that did not commit it");
  }
  const bool taken = taking == Taking::kBuilt || taking == Taking::kSkipped;
  if (taken && built->made_in != work.generation) settings_.count("version made before its generation was over");
  if (taking == Taking::kSkipped) settings_.count("version of a skipped step taken");
}

// Computes slots of the round. If the round is over, gives it up instead; a real worker notices this when it waits for
// weights.
void ReplicaWorker::Compute() {
  if (round_.over) {
    Carry(core_.GiveUpRound());
    until_ = {};
    return;
  }
  if (!std::exchange(round_.begun, true)) {
    if (settings_.options->slots < settings_.options->shards) settings_.count("step without a slot on some shard");
    until_ = now_ + Up_to(60);
    const double slow = settings_.options->slow_computing;
    if (slow > 0 && !Calm() && Chance(slow)) until_ += Up_to(6000);
  }
  while (core_.is_computing() && now_ >= until_) ComputeSlot();
}

// Begins the present slot; if it was begun before, computes and ends it.
void ReplicaWorker::ComputeSlot() {
  const session::RoundWork& work = core_.work();
  const SlotIndex slot = work.slots[round_.slot];
  if (Chance(0.1)) until_ = now_ + Up_to(30);
  if (!core_.sums().is_open()) {
    if (round_.slot == 0) settings_.computes_with(round_.generation, work.terms.version, Present());
    return Carry(core_.BeginSlot(SamplesOf(*settings_.options, work.step, slot)));
  }
  for (auto index = static_cast<BlockIndex>(settings_.catalog->blocks().size()); index-- > 0;) {
    const Block& block = settings_.catalog->blocks()[index];
    for (std::uint64_t i = block.flat_offset; i < block.flat_offset + block.count; ++i) {
      if (round_.open.use == train::SumUse::kNone) break;
      const float gradient = GradientOf(*settings_.options, replica_.weights()[i], work.step, slot, i);
      const float before = round_.open.use == train::SumUse::kAdd ? sum_[i] : 0.0F;
      sum_[i] = before + gradient * static_cast<float>(round_.open.samples);
    }
    Carry(core_.FinishBlock(index));
  }
  SlotReport report;
  report.slot = slot;
  report.samples = round_.open.samples;
  report.loss_sum = static_cast<double>(slot) + static_cast<double>(work.step.value);
  report.predictions = report.samples;
  ++round_.slot;
  Carry(core_.EndSlot(report));
}

// ---- commands ------------------------------------------------------------------------------------------------------

void ReplicaWorker::Carry(Commands commands) {
  while (!commands.empty()) {
    Commands next;
    for (const train::AllReduceCommand& command : commands) {
      next = Do(command);
      if (!next.empty()) break;  // they take the place of the rest
    }
    commands = std::move(next);
  }
}

Commands ReplicaWorker::Do(const train::AllReduceCommand& command) {
  Commands next;
  std::visit(
      Overloaded{
          [&](const train::PublishVersion&) { replica_.Publish(); },
          [&](const train::Meet& meet) {
            known_.reset();
            deadline_ = meet.deadline;
            next = core_.OfferAddress(std::to_string(settings_.node));
          },
          [&](const train::FormDevices& form) {  // all members decide alike
            on_devices_ = form.members.size() > 1 && (settings_.options->seed + form.generation.value) % 3 == 0;
            if (on_devices_) settings_.count("groups of devices formed");
            next = core_.DevicesFormed(on_devices_);
          },
          [&](const train::EndGroup&) { LeaveGroup(); },
          [&](const train::Notify&) {},
          [&](const train::AwaitSamples& await) {
            until_ = now_ + Up_to(20);
            pending_ = await;
          },
          [&](const train::AwaitBucket& await) {
            if (Chance(0.2)) until_ = now_ + Up_to(20);
            pending_ = await;
          },
          [&](const train::BeginUpdate& begin) { replica_.BeginStep(begin.parameters, begin.samples, sum_.data()); },
          [&](const train::UpdateBucket& update) {
            const train::Bucket& bucket = buckets_[update.bucket];
            for (BlockIndex block = bucket.last + 1; block-- > bucket.first;) replica_.UpdateBlock(block);
          },
          [&](const train::ReportSlot& slot) { session_->EndSlot(core_.work().round, slot.report, {}, now_, out_); },
          [&](const auto& other) { next = On(other); },
      },
      command);
  return next;
}

Commands ReplicaWorker::On(const train::ReportGroup& report) {
  if (report.state == GroupState::kFormed) settings_.count("groups formed");
  if (report.state == GroupState::kBroken) settings_.count("group broken by a member");
  if (report.state == GroupState::kLost) settings_.count("nobody had the version any more");
  session_->ReportGroup(report.generation, report.state, report.text, now_, out_);
  return {};
}

Commands ReplicaWorker::On(const train::ConnectMembers& connect) {
  const bool fails = settings_.options->unconnected || (!Calm() && Chance(0.03));
  if (fails) return core_.Fail(Unreachable("no connection"));
  group_ = settings_.board->Connect(connect.addresses, core_.generation(), core_.work().rank);
  steps_ = 0;
  until_ = now_ + Up_to(Chance(0.1) ? 1000 : 20);
  pending_ = connect;
  return {};
}

Commands ReplicaWorker::On(const train::ReadVersion& read) {
  settings_.count("version read from the shards");
  const std::optional<Arrays> arrays = settings_.read(read.version, read.generation);
  if (!arrays) return core_.Fail(Status(Code::kStale, "the job has gone on meanwhile"));
  for (std::size_t i = 0; i < replica_.array_count(); ++i) {
    std::copy((*arrays)[i].begin(), (*arrays)[i].end(), replica_.array(i).begin());
  }
  round_.has_read = true;
  return core_.VersionRead();
}

Commands ReplicaWorker::On(const train::ShareVersion& share) {
  if (share.root == core_.work().rank) {
    if (!round_.has_read) settings_.count("version handed on by a member");
    group_->version = Present();
  }
  until_ = now_ + Up_to(Chance(0.1) ? 1000 : 20);
  pending_ = share;
  return {};
}

Commands ReplicaWorker::On(const train::OpenSlot& slot) {
  round_.open = slot;
  if (slot.zero) std::fill(sum_.begin(), sum_.end(), 0.0F);
  return {};
}

// Returns this member's part of the round's step. The first call in a round makes it.
RingPart* ReplicaWorker::Part() {
  const session::RoundWork& work = core_.work();
  if (!std::exchange(round_.has_part, true)) {
    if (group_->steps.size() == steps_) group_->steps.emplace_back();
    RingGroup::Parts& parts = group_->steps[steps_++];
    for (const auto& [rank, other] : parts) {
      if (other.step != work.step) violation_ = "gradients of two steps are added up";
    }
    parts[work.rank] = {work.step, work.slots, 0, std::vector<float>(sum_.size()),
                        std::vector<bool>(buckets_.size() + 1)};
  }
  return &group_->steps[steps_ - 1][work.rank];
}

Commands ReplicaWorker::On(const train::ReduceSamples& reduce) {
  if (FailsToSubmit()) return core_.Fail(Lost());
  RingPart* const part = Part();
  part->samples = reduce.samples;
  part->handed_over[buckets_.size()] = true;
  return {};
}

Commands ReplicaWorker::On(const train::ReduceBucket& reduce) {
  if (FailsToSubmit()) return round_.over && on_devices_ ? core_.EndRound(Over()) : core_.Fail(Lost());
  const train::Bucket& bucket = buckets_[reduce.bucket];
  const auto begin = static_cast<std::ptrdiff_t>(bucket.flat_offset);
  RingPart* const part = Part();
  std::copy_n(sum_.begin() + begin, bucket.count, part->sum.begin() + begin);
  part->handed_over[reduce.bucket] = true;
  return {};
}

Commands ReplicaWorker::On(const train::FinishUpdate& finish) {
  const train::Replica::Outcome outcome = replica_.FinishStep(finish.step);
  Arrays arrays;
  for (const Slice& slice : replica_.Made(outcome.action)) {
    const auto* values = reinterpret_cast<const float*>(slice.data);
    arrays.emplace_back(values, values + slice.size / sizeof(float));
  }
  settings_.made(round_.generation, Version{finish.step.value + 1}, arrays);
  return core_.VersionBuilt(outcome);
}

Commands ReplicaWorker::On(const train::UploadBlocks& upload) {
  const session::RoundWork& work = core_.work();
  const bool forgets = settings_.flaw == Flaw::kShareForgotten && work.rank > 0;
  session_->UploadVersion(work.round, replica_.Made(upload.action), forgets ? std::vector<BlockIndex>() : upload.blocks,
                          now_, out_);
  return {};
}

// ---- commands that take long ---------------------------------------------------------------------------------------

std::optional<Commands> ReplicaWorker::GoOn(const train::ConnectMembers&) {
  if (now_ < until_) return std::nullopt;
  if (group_->connected() && (Calm() || !Chance(0.01))) return core_.Connected(now_);
  const bool seen = group_->broken() && Chance(0.1);
  if (seen || group_->connected() || now_ >= deadline_) return core_.Fail(Unreachable("no connection"));
  return std::nullopt;
}

std::optional<Commands> ReplicaWorker::GoOn(const train::ShareVersion& share) {
  if (now_ < until_) return std::nullopt;
  if (!group_->version) {
    const bool fails = group_->broken() && Chance(0.1);
    if (!round_.over && !fails) return std::nullopt;
    if (share.receives) replica_.array(0)[0] = NAN;  // a part of it may have arrived
    return core_.Fail(round_.over ? Over() : Lost());
  }
  for (std::size_t i = 0; i < replica_.array_count(); ++i) {
    std::copy((*group_->version)[i].begin(), (*group_->version)[i].end(), replica_.array(i).begin());
  }
  if (share.receives) replica_.Filled();
  return core_.VersionShared();
}

std::optional<Commands> ReplicaWorker::GoOn(const train::AwaitSamples&) {
  std::optional<Commands> ended = AwaitOthers(group_->Has(steps_ - 1, buckets_.size()));
  if (!ended || !ended->empty()) return ended;
  std::uint64_t samples = 0;
  for (const auto& [rank, part] : group_->steps[steps_ - 1]) samples += part.samples;
  return core_.SamplesReduced(samples);
}

std::optional<Commands> ReplicaWorker::GoOn(const train::AwaitBucket& await) {
  std::optional<Commands> ended = AwaitOthers(group_->Has(steps_ - 1, await.bucket));
  if (!ended || !ended->empty()) return ended;
  const train::Bucket& bucket = buckets_[await.bucket];
  const auto sum = std::span(sum_).subspan(bucket.flat_offset, bucket.count);
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (const auto& [rank, part] : group_->steps[steps_ - 1]) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part.sum[bucket.flat_offset + i];
  }
  return core_.BucketReduced();
}

// Waits for a sum. Returns nullopt while the sum is not here, an empty list once it is, and otherwise the commands
// after the end of the round or a failure. Members get a sum at different times.
std::optional<Commands> ReplicaWorker::AwaitOthers(bool is_there) {
  if (now_ < until_) return std::nullopt;
  const bool fails = is_there ? !Calm() && group_->broken() && Chance(0.3) : group_->broken() && Chance(0.02);
  if (is_there && !fails) return Commands();
  if (round_.over) return core_.EndRound(Over());
  if (fails) return core_.Fail(Lost());
  return std::nullopt;
}

// ---- the group -----------------------------------------------------------------------------------------------------

void ReplicaWorker::LeaveGroup() {
  if (group_ != nullptr) group_->gone.insert(settings_.node);
  group_ = nullptr;
  pending_.reset();
  until_ = {};
}

Arrays ReplicaWorker::Present() {
  Arrays arrays;
  for (std::size_t i = 0; i < replica_.array_count(); ++i) {
    arrays.emplace_back(replica_.array(i).begin(), replica_.array(i).end());
  }
  return arrays;
}

}  // namespace capstan::sim
