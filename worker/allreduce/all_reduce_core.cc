#include "worker/allreduce/all_reduce_core.h"

#include <optional>
#include <utility>

#include "worker/allreduce/member_patience.h"

namespace capstan::train {

AllReduceCore::AllReduceCore(const Catalog& catalog, std::vector<Bucket> buckets, std::uint64_t replica_bytes)
    : catalog_(catalog),
      buckets_(std::move(buckets)),
      bucket_of_(BucketOfBlocks(buckets_, catalog)),
      replica_bytes_(replica_bytes) {}

// ---- between rounds ------------------------------------------------------------------------------------------------

void AllReduceCore::BeginRound(const session::WorkReady& ready) {
  round_ = {ready.work, ready.loss_scale, StepSums(ready.work.slots, buckets_)};
  state_ = State::kAnnounced;
  status_ = {};
}

AllReduceCommands AllReduceCore::Settle(Instant now) {
  if (state_ != State::kAnnounced) return {};
  status_ = {};
  AllReduceCommands out;
  const bool has_version = TakeVersion(&out);
  const bool is_group_of_round = group_.generation == round_.work.generation;
  // A round without members: the coordinator gave up the generation's group before this worker received the round.
  if ((is_group_of_round && !group_.formed) || round_.work.group.empty()) {
    state_ = State::kWaiting;
  } else if (!is_group_of_round) {
    Form(now, &out);
  } else if (has_version) {
    state_ = State::kComputing;
  } else {
    for (AllReduceCommand& command : Break(GroupState::kBroken, Corrupt("its replica is not at the job's version"))) {
      out.push_back(std::move(command));
    }
  }
  return out;
}

// Whether the replica has the version that the round begins with. If the version that it built was committed meanwhile,
// that one is published.
bool AllReduceCore::TakeVersion(AllReduceCommands* out) {
  const ReplicaVersion::Taking taking = version_.Take(round_.work.terms);
  if (taking == ReplicaVersion::Taking::kBuilt) out->push_back(PublishVersion{});
  return taking != ReplicaVersion::Taking::kNot;
}

AllReduceCommands AllReduceCore::EndRound(const Status& why) {
  if (is_forming()) return Fail(why);
  if (state_ == State::kComputing || state_ == State::kReducing) return LeaveGroup(State::kIdle, why);
  if (state_ == State::kIdle) return {};
  state_ = State::kIdle;
  status_ = why;
  return {};
}

// If a round is given up after its last slot has begun, other members may wait for this worker's buckets. So the group
// ends.
AllReduceCommands AllReduceCore::GiveUpRound() {
  AllReduceCommands out;
  if (group_.formed && round_.sums.under_way()) {
    out = Break(GroupState::kBroken, Status(Code::kStale, "its round was given up"));
  }
  round_.sums.LeaveSlot();
  state_ = State::kIdle;
  return out;
}

// ---- the group -----------------------------------------------------------------------------------------------------

void AllReduceCore::Form(Instant now, AllReduceCommands* out) {
  const session::RoundWork& work = round_.work;
  out->push_back(End());
  group_ = {};
  group_.generation = work.generation;
  group_.has_version = version_.MayHandOn(work.terms);
  group_.deadline = now + kMeetMax;
  if (!group_.has_version) version_.Forget();  // another member's version, or the shards', overwrites the replica
  state_ = State::kMeeting;
  out->push_back(Meet{work.group, work.rank, group_.deadline});
}

AllReduceCommands AllReduceCore::OfferAddress(const std::string& address) {
  if (state_ != State::kMeeting) return {};
  state_ = State::kOffered;
  return {ReportGroup{group_.generation, GroupState::kOffered, VersionOffers::TextOf(group_.has_version, address)}};
}

AllReduceCommands AllReduceCore::TakeGroup(const session::GroupKnown& known) {
  if (state_ != State::kOffered || known.generation != group_.generation) return {};
  if (known.members.size() != round_.work.group.size() || known.rank != round_.work.rank) {
    return Fail(Status(Code::kStale, "another group was formed"));
  }
  Result<VersionOffers> offers = VersionOffers::Create(known.members);
  if (!offers.ok()) return Fail(offers.status());
  group_.offers = std::move(offers).value();
  state_ = State::kConnecting;
  return {ConnectMembers{group_.offers.addresses()}};
}

AllReduceCommands AllReduceCore::Tick(Instant now) {
  if (state_ != State::kOffered || now < group_.deadline) return {};
  return Fail(Timeout("the workers' addresses did not come from the coordinator, which knows who has not offered one"));
}

AllReduceCommands AllReduceCore::Connected(Instant now) {
  if (state_ != State::kConnecting) return {};
  const session::StepTerms& terms = round_.work.terms;
  if (group_.offers.all_have_it()) return Agree();
  group_.deadline = now + ShareMax(replica_bytes_);
  if (const std::optional<int> source = group_.offers.source()) return Share(*source);
  if (!terms.on_shards)
    return Fail(Corrupt("no worker has version " + std::to_string(terms.version.value) + " any more"));
  if (round_.work.rank != 0) return Share(0);
  state_ = State::kReading;
  return {ReadVersion{terms.version, group_.generation, group_.deadline}};
}

AllReduceCommands AllReduceCore::VersionRead() {
  if (state_ != State::kReading) return {};
  return Share(0);
}

AllReduceCommands AllReduceCore::Share(int root) {
  state_ = State::kSharing;
  return {ShareVersion{root, !group_.has_version, group_.deadline}};
}

AllReduceCommands AllReduceCore::VersionShared() {
  if (state_ != State::kSharing) return {};
  return Agree();
}

AllReduceCommands AllReduceCore::Agree() {
  state_ = State::kAgreeing;
  return {FormDevices{round_.work.group, round_.work.rank, group_.generation}};
}

AllReduceCommands AllReduceCore::DevicesFormed(bool on_devices) {
  if (state_ != State::kAgreeing) return {};
  group_.formed = true;
  group_.on_devices = on_devices;
  version_.Become(round_.work.terms);
  state_ = State::kComputing;
  return {ReportGroup{group_.generation, GroupState::kFormed, {}}};
}

AllReduceCommands AllReduceCore::Fail(const Status& why) {
  if (is_forming()) {
    switch (why.code()) {
      case Code::kStale: return LeaveGroup(State::kIdle, why);
      case Code::kUnsupported: return LeaveGroup(State::kAnnounced, why);
      case Code::kCorrupt: return Break(GroupState::kLost, why);
      default: return Break(GroupState::kBroken, why);
    }
  }
  if (!group_.formed || (state_ != State::kComputing && state_ != State::kReducing)) return {};
  return Break(GroupState::kBroken, why);
}

AllReduceCommands AllReduceCore::Break(GroupState state, const Status& why) {
  AllReduceCommands out = LeaveGroup(State::kIdle, Status(Code::kStale, "the group is over: " + why.message()));
  out.push_back(ReportGroup{group_.generation, state, why.message()});
  out.push_back(Notify{"the group of this generation is over: " + why.message()});
  return out;
}

AllReduceCommands AllReduceCore::LeaveGroup(State next, const Status& why) {
  AllReduceCommands out = {End()};
  group_.formed = false;
  state_ = next;
  status_ = why;
  return out;
}

// Aborts the group in states in which other members may wait in a collective for a version that is sent to them.
EndGroup AllReduceCore::End() {
  return {state_ == State::kConnecting || state_ == State::kReading || state_ == State::kSharing};
}

// ---- a step --------------------------------------------------------------------------------------------------------

AllReduceCommands AllReduceCore::BeginSlot(std::uint64_t samples) {
  if (!is_computing()) return {};
  AllReduceCommands out = {round_.sums.BeginSlot(samples)};
  if (round_.sums.at_last_slot() && !group_.on_devices) out.push_back(ReduceSamples{round_.sums.samples()});
  return out;
}

AllReduceCommands AllReduceCore::FinishBlock(BlockIndex block) {
  if (!is_computing()) return {};
  round_.sums.FinishBlock(bucket_of_[block]);
  AllReduceCommands out;
  while (const std::optional<std::size_t> bucket = round_.sums.TakeFinalBucket()) out.push_back(ReduceBucket{*bucket});
  return out;
}

AllReduceCommands AllReduceCore::EndSlot(SlotReport report) {
  round_.sums.EndSlot(std::move(report));
  if (!is_computing() || !round_.sums.at_last_slot()) return {};
  state_ = State::kReducing;
  // When devices reduce, the samples come last: once they are added up, all members have enqueued all buckets.
  if (group_.on_devices) return {ReduceSamples{round_.sums.samples()}, AwaitSamples{}};
  return {AwaitSamples{}};
}

AllReduceCommands AllReduceCore::SamplesReduced(std::uint64_t samples) {
  if (state_ != State::kReducing) return {};
  StepParameters parameters;
  parameters.updates = round_.work.updates;
  parameters.learning_rate = round_.work.terms.learning_rate;
  parameters.loss_scale = round_.loss_scale;
  return {BeginUpdate{parameters, samples}, AwaitBucket{*round_.sums.awaited()}};
}

AllReduceCommands AllReduceCore::BucketReduced() {
  if (state_ != State::kReducing) return {};
  AllReduceCommands out = {UpdateBucket{*round_.sums.awaited()}};
  round_.sums.BucketReduced();
  if (const std::optional<std::size_t> next = round_.sums.awaited()) {
    out.push_back(AwaitBucket{*next});
  } else {
    out.push_back(FinishUpdate{round_.work.step});
  }
  return out;
}

AllReduceCommands AllReduceCore::VersionBuilt(const Replica::Outcome& outcome) {
  if (state_ != State::kReducing) return {};
  AllReduceCommands out;
  version_.Build(Version{round_.work.step.value + 1}, group_.generation, outcome.action);
  if (round_.work.terms.upload_next) out.push_back(UploadBlocks{outcome.action, BlocksToUpload()});
  for (SlotReport& report : round_.sums.TakeReports()) {
    report.gradient_squares = outcome.gradient_squares;
    report.replica_hash = outcome.hash;
    out.push_back(ReportSlot{std::move(report)});
  }
  state_ = State::kIdle;
  return out;
}

// This worker's share of the blocks: each worker uploads every n-th one, where n is the number of workers.
std::vector<BlockIndex> AllReduceCore::BlocksToUpload() const {
  std::vector<BlockIndex> blocks;
  const auto workers = static_cast<BlockIndex>(round_.work.group.size());
  for (auto block = static_cast<BlockIndex>(round_.work.rank); block < catalog_.blocks().size(); block += workers) {
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace capstan::train
