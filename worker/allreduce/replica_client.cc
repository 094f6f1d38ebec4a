#include "worker/allreduce/replica_client.h"

#include <capstan/reader.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "common/base/float_control.h"
#include "common/config/job/allreduce_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/metrics_check.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "worker/allreduce/form_group.h"
#include "worker/allreduce/member_patience.h"
#include "worker/allreduce/replica_version.h"
#include "worker/client/describe.h"
#include "worker/client/finished_blocks.h"
#include "worker/collective/buckets.h"

namespace capstan::train {

namespace {

using collective::CollectiveThread;
using session::Session;
using session::StepTerms;
using Clock = std::chrono::steady_clock;

constexpr auto kGlanceEvery = std::chrono::milliseconds(20);  // how often to check for events while waiting
// Lost members end the group, and the coordinator notices late ones.
constexpr auto kReduceMax = std::chrono::hours(24);

class ReplicaClient : public client::ClientBase {
 public:
  ReplicaClient(client::Connection connection, ReplicaClientOptions options)
      : ClientBase(std::move(connection)), options_(std::move(options)) {}
  ~ReplicaClient() override {
    thread_.reset();  // the device reducer is destroyed already
    Close();
  }

  Status Declare(const WorkerDescription& description) override;
  Result<std::optional<Work>> NextWork(Deadline deadline) override;
  const float* weights() const override { return replica_ ? replica_->weights() : nullptr; }
  const std::uint16_t* narrow_weights() const override { return replica_ ? replica_->narrow_weights() : nullptr; }
  std::uint64_t element_count() const override { return catalog_ ? catalog_->element_count() : 0; }
  Status WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) override;
  Status SetHyperParameters(const std::vector<HyperParameters>&) override { return NotHere("SetHyperParameters"); }
  Status SetProgramState(std::string_view) override { return NotHere("SetProgramState"); }
  const std::string& program_state() const override { return no_state_; }
  Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) override;
  Status GradientReady(std::uint32_t first, std::uint32_t last) override;
  Status EndSlot(std::uint32_t slot, const SlotResult& result) override;
  ClientCounters counters() const override;

 private:
  using Ticket = CollectiveThread::Ticket;

  void GiveUpRound() override;
  void BeginRound(const Session::WorkReady& ready) override;
  void TakeGroup(Session::GroupKnown& group) override { known_ = std::move(group); }

  Status NotHere(const char* call) {
    return Misuse(std::string(call) + " has no meaning in mode \"allreduce\", where capstan-worker trains");
  }
  // Makes the group and the version ready for the announced round. kTimeout: they are not ready yet.
  Status Settle(Deadline deadline);
  bool TakeVersion();
  Status Form();
  Result<std::vector<std::string>> OfferAddress(std::string address, Deadline deadline);
  Status ReadVersion(Deadline deadline);
  // Ends the group and reports why to the coordinator, which begins another generation.
  Status Break(GroupState state, const Status& why);
  Status AwaitAnotherGeneration(Deadline deadline);

  DeviceReducer* devices() const { return options_.devices(); }
  bool on_devices() const { return devices() != nullptr && devices()->is_formed(); }
  void EndGroup();

  bool AtLastSlot() const { return slots_begun_ == work().slots.size(); }
  void FinishBlock(BlockIndex block);
  void AddGradient(const Block& block);
  Status SubmitBucket(std::size_t bucket);
  Status SubmitSamples();
  Status FinishStep();
  Status Await(Ticket ticket);
  Status AwaitBucket(std::size_t bucket);
  Status Lost(const Status& why);
  std::vector<BlockIndex> BlocksToGive() const;
  bool NamesTensors(std::uint32_t first, std::uint32_t last) const {
    return catalog_ && first <= last && last < catalog_->tensors().size();
  }

  const ReplicaClientOptions options_;
  const std::string no_state_;
  JobConfig config_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Replica> replica_;
  std::vector<Bucket> buckets_;         // in the order in which they are reduced
  std::vector<std::size_t> bucket_of_;  // bucket of each block
  // Flat gradients: the sum over the round's slots so far; the current slot's, if not the first.
  std::vector<float> sum_, slot_;

  ReplicaVersion version_;

  // The current generation.
  Generation group_of_;  // generation of the group of `thread_`, also after the group has ended; 0: none yet
  std::unique_ptr<CollectiveThread> thread_;
  std::optional<Session::GroupKnown> known_;
  std::uint64_t reduced_bytes_ = 0, bytes_out_ = 0, bytes_out_before_ = 0;  // by `thread_` and its predecessors
  std::uint64_t groups_formed_ = 0, device_groups_formed_ = 0;

  // The current round.
  bool announced_ = false;  // announced, and not returned by NextWork yet
  StepTerms terms_;
  std::vector<GroupMember> members_;
  int rank_ = 0;
  std::size_t slots_begun_ = 0;
  bool slot_open_ = false;
  bool has_sum_ = false;  // some slot of the round had samples
  std::uint64_t slot_samples_ = 0;
  float* slot_gradient_ = nullptr;  // gradient of the current slot
  float samples_ = 0;               // samples of the round's slots; after `samples_ticket_`, of the whole step
  Ticket samples_ticket_ = 0;
  client::FinishedBlocks finished_;            // of the current slot
  std::vector<std::uint32_t> blocks_missing_;  // blocks of the last slot that are not final, by bucket
  std::vector<Ticket> tickets_;                // reductions, by bucket
  std::vector<SlotReport> reports_;
  Status trouble_;  // first failure to submit a bucket
};

// ---- before rounds -------------------------------------------------------------------------------------------------

Status ReplicaClient::Declare(const WorkerDescription& description) {
  if (catalog_) return Misuse("Declare comes once");
  CAPSTAN_ASSIGN_OR_RETURN(config_, ParseJobConfig(job_file(), "the coordinator's job file"));
  std::vector<TensorSpec> specs = client::SpecsOf(description.tensors, config_.optimizer);
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(specs));
  if (catalog.is_given() || catalog.group_count() > 0) return NotHere("Declare with given weights or with groups");
  catalog_ = std::make_unique<Catalog>(std::move(catalog));
  replica_ = std::make_unique<Replica>(*catalog_, config_);
  buckets_ = CutBuckets(*catalog_, static_cast<std::uint64_t>(config_.allreduce.bucket_mib * (1 << 20)));
  bucket_of_ = BucketOfBlocks(buckets_, *catalog_);
  sum_.resize(catalog_->element_count());
  loop().Send(session::DeclareCommand{client::DeclarationOf(description, config_, std::move(specs)), nullptr, nullptr});
  Declared();
  return {};
}

// ---- rounds --------------------------------------------------------------------------------------------------------

// If a round is given up while its buckets are being reduced, the group cannot go on without this worker.
void ReplicaClient::GiveUpRound() {
  const bool has_begun = slots_begun_ > 0 && AtLastSlot();
  const bool has_ended = reports_.empty() && !slot_open_;
  if (thread_ && has_begun && !has_ended) {
    (void)Break(GroupState::kBroken, Status(Code::kStale, "its round was given up")).ok();
  }
  if (on_devices()) devices()->EndSlot();
  announced_ = slot_open_ = false;
}

void ReplicaClient::BeginRound(const Session::WorkReady& ready) {
  announced_ = true;
  terms_ = ready.work.terms;
  members_ = ready.work.group;
  rank_ = ready.work.rank;
  slots_begun_ = 0;
  has_sum_ = false;
  samples_ = 0;
  samples_ticket_ = 0;
  reports_.clear();
  trouble_ = {};
  tickets_.assign(buckets_.size(), 0);
  blocks_missing_.clear();
  for (const Bucket& bucket : buckets_) blocks_missing_.push_back(bucket.last - bucket.first + 1);
}

Result<std::optional<Work>> ReplicaClient::NextWork(Deadline deadline) {
  const FloatControl float_control;
  for (;;) {
    if (!announced_) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> next, ClientBase::NextWork(deadline));
      if (!next) return next;
    }
    const Status status = Settle(deadline);
    if (status.ok()) {
      announced_ = false;
      return std::optional<Work>(work());
    }
    if (status.code() != Code::kStale) return status;
    announced_ = false;
  }
}

Status ReplicaClient::Settle(Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(LookUp());
  const Generation generation{work().generation};
  const bool has_version = TakeVersion();
  if (group_of_ == generation && !thread_) return AwaitAnotherGeneration(deadline);
  // The group was given up before this worker received it.
  if (members_.empty()) return AwaitAnotherGeneration(deadline);
  if (group_of_ == generation && has_version) return {};
  if (group_of_ == generation) return Break(GroupState::kBroken, Corrupt("its replica is not at the job's version"));
  EndGroup();
  group_of_ = generation;
  known_.reset();
  const Status status = Form();
  if (status.ok() || status.code() == Code::kStale) return status;
  if (status.code() == Code::kUnsupported) return status;  // another group would fail too
  return Break(status.code() == Code::kCorrupt ? GroupState::kLost : GroupState::kBroken, status);
}

// The version that was built may have been committed meanwhile.
bool ReplicaClient::TakeVersion() {
  const ReplicaVersion::Taking taking = version_.Take(terms_);
  if (taking == ReplicaVersion::Taking::kBuilt) replica_->Publish();
  return taking != ReplicaVersion::Taking::kNot;
}

Status ReplicaClient::Form() {
  GroupOptions group;
  group.members = members_;
  group.rank = rank_;
  group.host = options_.host;
  group.wire = config_.allreduce.wire;
  group.silence = SilenceMax(config_);
  group.buckets = buckets_.size();
  group.version = terms_.version;
  group.has_version = version_.MayHandOn(terms_);
  group.shards_have_it = terms_.on_shards;
  group.exchange = [this](std::string address, Deadline deadline) {
    return OfferAddress(std::move(address), deadline);
  };
  group.read = [this](Deadline deadline) { return ReadVersion(deadline); };
  group.look_up = [this] { return LookUp(); };
  if (!group.has_version) version_.Forget();  // FormGroup overwrites the replica
  CAPSTAN_ASSIGN_OR_RETURN(auto formed, FormGroup(group, replica_.get()));
  if (devices() != nullptr) {
    const DeviceMembers members{members_, rank_, group_of_, group.look_up};
    CAPSTAN_RETURN_IF_ERROR(devices()->Form(members, sum_, buckets_.size(), formed.get()));
  }
  thread_ = std::move(formed);
  ++groups_formed_;
  if (on_devices()) ++device_groups_formed_;
  bytes_out_before_ = bytes_out_;
  version_.Become(terms_);
  loop().Send(session::GroupCommand{group_of_, GroupState::kFormed, {}});
  return {};
}

Result<std::vector<std::string>> ReplicaClient::OfferAddress(std::string address, Deadline deadline) {
  loop().Send(session::GroupCommand{group_of_, GroupState::kOffered, std::move(address)});
  while (!known_) {
    CAPSTAN_RETURN_IF_ERROR(LookUp());
    if (Clock::now() >= deadline) {
      return Timeout("the workers' addresses did not come from the coordinator, which knows who has not offered one");
    }
    if (Status status = TakeEvent(Clock::now() + kGlanceEvery, "the other workers"); status.code() != Code::kTimeout) {
      CAPSTAN_RETURN_IF_ERROR(status);
    }
  }
  std::vector<std::string> all;
  for (const GroupMember& member : known_->members) all.push_back(member.address);
  if (all.size() != members_.size() || known_->rank != rank_) return Status(Code::kStale, "another group was formed");
  return all;
}

Status ReplicaClient::ReadVersion(Deadline deadline) {
  ReaderOptions options;
  options.coordinator = options_.coordinator;
  options.name = options_.worker;
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Reader> reader, Reader::Connect(options));
  PullOptions wish;
  wish.optimizer_state = true;
  Result<std::optional<PulledVersion>> pulled = reader->Pull(wish, Clock::now() + kGlanceEvery);
  // The call continues with the blocks that have arrived.
  while (pulled.status().code() == Code::kTimeout && Clock::now() < deadline) {
    CAPSTAN_RETURN_IF_ERROR(LookUp());
    pulled = reader->Pull(wish, Clock::now() + kGlanceEvery);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::optional<PulledVersion> version, std::move(pulled));
  if (!version || version->step != terms_.version.value || version->generation != group_of_.value) {
    return {Code::kStale, "the job has gone on meanwhile"};
  }
  for (std::size_t i = 0; i < replica_->array_count(); ++i) {
    const float* const from = i == 0 ? reader->weights() : reader->state(i - 1);
    std::memcpy(replica_->array(i).data(), from, replica_->array(i).size_bytes());
  }
  return {};
}

void ReplicaClient::EndGroup() {
  thread_.reset();
  if (devices() != nullptr) devices()->End();
}

Status ReplicaClient::Break(GroupState state, const Status& why) {
  EndGroup();
  loop().Send(session::GroupCommand{group_of_, state, why.message()});
  if (options_.on_notice) options_.on_notice("the group of this generation is over: " + why.message());
  return {Code::kStale, "the group is over: " + why.message()};
}

Status ReplicaClient::AwaitAnotherGeneration(Deadline deadline) {
  while (!round_is_over()) CAPSTAN_RETURN_IF_ERROR(TakeEvent(deadline, "another group"));
  return {Code::kStale, "the generation is over"};
}

// ---- slots ---------------------------------------------------------------------------------------------------------

Status ReplicaClient::WaitWeights(std::uint32_t first, std::uint32_t last, Deadline) {
  if (!NamesTensors(first, last)) {
    return Misuse("WaitWeights(" + std::to_string(first) + ", " + std::to_string(last) + ") names no tensors");
  }
  return LookUp();
}

Result<float*> ReplicaClient::BeginSlot(std::uint32_t slot, std::uint64_t samples) {
  CAPSTAN_RETURN_IF_ERROR(LookUp());
  if (slot_open_ || slots_begun_ == work().slots.size() || work().slots[slots_begun_] != slot) {
    return Misuse("BeginSlot(" + std::to_string(slot) + ") is not the next slot of the round");
  }
  if (!thread_) return Status(Code::kStale, "the group is over");
  ++slots_begun_;
  slot_open_ = true;
  slot_samples_ = samples;
  samples_ += static_cast<float>(samples);  // exact: a global batch is below 2^24
  const bool adds = has_sum_ && samples > 0, is_empty = AtLastSlot() && !has_sum_ && samples == 0;
  if (on_devices()) {
    if (samples > 0) devices()->BeginSlot(samples, adds ? SlotSum::kAdd : SlotSum::kReplace);
    if (is_empty) devices()->SetZero();
  } else {
    if (adds) slot_.resize(sum_.size());
    if (is_empty) std::fill(sum_.begin(), sum_.end(), 0.0F);
  }
  slot_gradient_ = samples == 0 ? nullptr : adds && !on_devices() ? slot_.data() : sum_.data();
  finished_.Begin(*catalog_);
  if (AtLastSlot() && !on_devices()) CAPSTAN_RETURN_IF_ERROR(SubmitSamples());
  return slot_gradient_;
}

Status ReplicaClient::SubmitSamples() {
  if (!thread_) return {Code::kStale, "the group is over"};
  const auto ticket = thread_->SubmitExactAllReduce(std::span(&samples_, 1), Clock::now() + kReduceMax);
  if (!ticket.ok()) return Break(GroupState::kBroken, ticket.status());
  samples_ticket_ = *ticket;
  return {};
}

Status ReplicaClient::GradientReady(std::uint32_t first, std::uint32_t last) {
  const FloatControl float_control;
  if (!slot_open_ || !NamesTensors(first, last)) {
    return Misuse("GradientReady(" + std::to_string(first) + ", " + std::to_string(last) +
                  ") names no tensors of a slot that was begun");
  }
  finished_.Take(*catalog_, first, last, [this](BlockIndex block) { FinishBlock(block); });
  return trouble_;
}

// The gradient of a block is final for this slot. In the last slot this may complete its bucket.
void ReplicaClient::FinishBlock(BlockIndex index) {
  if (slot_gradient_ != nullptr && !on_devices()) AddGradient(catalog_->blocks()[index]);
  const std::size_t bucket = bucket_of_[index];
  if (!AtLastSlot() || --blocks_missing_[bucket] > 0 || !trouble_.ok()) return;
  trouble_ = SubmitBucket(bucket);
}

void ReplicaClient::AddGradient(const Block& block) {
  const auto samples = static_cast<float>(slot_samples_);
  float* __restrict sum = sum_.data() + block.flat_offset;
  if (slot_gradient_ == sum_.data()) {
    for (std::uint32_t i = 0; i < block.count; ++i) sum[i] *= samples;
    return;
  }
  const float* __restrict slot = slot_.data() + block.flat_offset;
  for (std::uint32_t i = 0; i < block.count; ++i) sum[i] += slot[i] * samples;
}

Status ReplicaClient::SubmitBucket(std::size_t index) {
  if (!thread_) return {Code::kStale, "the group is over"};
  const Bucket& bucket = buckets_[index];
  if (on_devices()) {
    const Status status = devices()->AddBucket(index, bucket);
    return status.ok() ? status : Lost(status);
  }
  const std::span<float> data(sum_.data() + bucket.flat_offset, bucket.count);
  const auto deadline = Clock::now() + kReduceMax;
  const auto ticket =
      bucket.statistics ? thread_->SubmitExactAllReduce(data, deadline) : thread_->SubmitAllReduce(data, deadline);
  if (!ticket.ok()) return Break(GroupState::kBroken, ticket.status());
  tickets_[index] = *ticket;
  return {};
}

Status ReplicaClient::EndSlot(std::uint32_t slot, const SlotResult& result) {
  const FloatControl float_control;
  if (!slot_open_ || work().slots[slots_begun_ - 1] != slot) {
    return Misuse("EndSlot(" + std::to_string(slot) + ") does not end the slot that was begun");
  }
  if (Status status = CheckMetrics(result.metrics); !status.ok()) {
    return Misuse("EndSlot(" + std::to_string(slot) + "): " + status.message());
  }
  slot_open_ = false;
  finished_.TakeRest([this](BlockIndex block) { FinishBlock(block); });
  has_sum_ = has_sum_ || slot_gradient_ != nullptr;
  reports_.push_back(client::ReportOf(slot, slot_samples_, result));
  CAPSTAN_RETURN_IF_ERROR(trouble_);
  if (on_devices()) {
    devices()->EndSlot();
    // When this reduction is done, all members have enqueued all buckets.
    if (AtLastSlot()) CAPSTAN_RETURN_IF_ERROR(SubmitSamples());
  }
  return AtLastSlot() ? FinishStep() : LookUp();
}

// Waits until the array is reduced or the round is over.
Status ReplicaClient::Await(Ticket ticket) {
  for (;;) {
    const Status status = thread_->Wait(ticket, Clock::now() + kGlanceEvery);
    if (status.ok()) return {};
    if (Status over = LookUp(); !over.ok()) {
      EndGroup();
      return over;
    }
    if (status.code() != Code::kBusy) return Break(GroupState::kBroken, status);
  }
}

Status ReplicaClient::AwaitBucket(std::size_t index) {
  if (!on_devices()) return Await(tickets_[index]);
  const Status status = devices()->Await(index);
  return status.ok() ? status : Lost(status);
}

// The device group has failed. Breaks the group, unless the round is over anyway.
Status ReplicaClient::Lost(const Status& why) {
  Status over = LookUp();
  if (over.ok()) return Break(GroupState::kBroken, why);
  EndGroup();
  return over;
}

Status ReplicaClient::FinishStep() {
  CAPSTAN_RETURN_IF_ERROR(Await(samples_ticket_));
  StepParameters parameters;
  parameters.updates = work().updates;
  parameters.learning_rate = terms_.learning_rate;
  parameters.loss_scale = work().loss_scale;
  replica_->BeginStep(parameters, static_cast<std::uint64_t>(samples_), sum_.data());
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    CAPSTAN_RETURN_IF_ERROR(AwaitBucket(i));
    for (BlockIndex block = buckets_[i].last + 1; block-- > buckets_[i].first;) replica_->UpdateBlock(block);
  }
  if (on_devices()) devices()->StepDone();
  reduced_bytes_ += sum_.size() * sizeof(float);
  bytes_out_ = bytes_out_before_ + thread_->bytes_sent();
  const Replica::Outcome outcome = replica_->FinishStep(Step{work().step});
  version_.Build(Version{work().step + 1}, group_of_, outcome.action);
  if (terms_.upload_next) loop().Send(session::UploadCommand{round(), replica_->Made(outcome.action), BlocksToGive()});
  for (SlotReport& report : reports_) {
    report.gradient_squares = outcome.gradient_squares;
    report.replica_hash = outcome.hash;
    loop().Send(session::EndSlotCommand{round(), std::move(report), {}});
  }
  reports_.clear();
  return LookUp();
}

ClientCounters ReplicaClient::counters() const {
  ClientCounters counters = ClientBase::counters();
  counters.reduced_bytes = reduced_bytes_;
  counters.group_bytes_out = bytes_out_;
  counters.groups_formed = groups_formed_;
  counters.device_groups_formed = device_groups_formed_;
  return counters;
}

// The blocks that this worker uploads: its share of a version that all workers have.
std::vector<BlockIndex> ReplicaClient::BlocksToGive() const {
  std::vector<BlockIndex> blocks;
  const auto workers = static_cast<BlockIndex>(members_.size());
  for (auto block = static_cast<BlockIndex>(rank_); block < catalog_->blocks().size(); block += workers) {
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace

std::unique_ptr<Client> CreateReplicaClient(client::Connection connection, ReplicaClientOptions options) {
  return std::make_unique<ReplicaClient>(std::move(connection), std::move(options));
}

}  // namespace capstan::train
