#include "worker/allreduce/replica_client.h"

#include <capstan/reader.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <variant>

#include "common/base/float_control.h"
#include "common/config/job/allreduce_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/metrics_check.h"
#include "worker/allreduce/all_reduce_core.h"
#include "worker/allreduce/connect_group.h"
#include "worker/allreduce/member_patience.h"
#include "worker/client/describe.h"
#include "worker/client/finished_blocks.h"
#include "worker/collective/buckets.h"
#include "worker/collective/secure_mesh.h"

namespace capstan::train {

namespace {

using collective::CollectiveThread;
using session::Session;
using Clock = std::chrono::steady_clock;
using Commands = AllReduceCommands;

constexpr auto kGlanceEvery = std::chrono::milliseconds(20);  // how often to check for events while waiting
// Long, because other checks end the group sooner: its connections notice a lost member, the coordinator a late one.
constexpr auto kReduceMax = std::chrono::hours(24);

Instant Now() { return Clock::now().time_since_epoch(); }

// A visitor made of one function for each alternative of a variant.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

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
  Status SetClipNorm(double) override { return NotHere("SetClipNorm"); }
  Status SetClipValue(double) override { return NotHere("SetClipValue"); }
  Status SetProgramState(std::string_view) override { return NotHere("SetProgramState"); }
  const std::string& program_state() const override { return no_state_; }
  Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) override;
  Status GradientReady(std::uint32_t first, std::uint32_t last) override;
  Status GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) override;
  Status EndSlot(std::uint32_t slot, const SlotResult& result) override;
  ClientCounters counters() const override;

 private:
  using Ticket = CollectiveThread::Ticket;
  // The commands that follow if a wait failed; nullopt: the wait succeeded.
  using Ended = std::optional<Commands>;

  void GiveUpRound() override;
  void BeginRound(const Session::WorkReady& ready) override { core_->BeginRound(ready); }
  void TakeGroup(Session::GroupKnown& group) override { Execute(core_->TakeGroup(group)); }

  Status NotHere(const char* call) {
    return Misuse(std::string(call) + " has no meaning in mode \"allreduce\", where capstan-worker trains");
  }
  // Makes the group and the version ready for the announced round. kTimeout: they are not ready yet.
  Status Settle(Deadline deadline);
  Result<std::vector<std::string>> OfferAddress(const std::string& address);
  Status Read(const ReadVersion& read);

  // Carries out the core's commands. Do and On return the commands that follow from theirs.
  void Execute(Commands commands);
  Commands Do(const AllReduceCommand& command);
  Commands On(const Meet& meet);
  Commands On(const ReadVersion& read);
  Commands On(const ShareVersion& share);
  Commands On(const FormDevices& form);
  Commands On(const EndGroup& end);
  Commands On(const OpenSlot& slot);
  Commands On(const ReduceSamples& reduce);
  Commands On(const ReduceBucket& reduce);
  Commands On(const AwaitSamples&);
  Commands On(const AwaitBucket& await);
  Commands On(const UpdateBucket& update);
  Commands On(const FinishUpdate& finish);

  DeviceReducer* devices() const { return options_.devices(); }
  bool on_devices() const { return devices() != nullptr && devices()->is_formed(); }
  Ended Await(Ticket ticket);
  // Reports to the core that the devices' group has failed; returns the commands that follow.
  Commands Lost(const Status& why);
  void FinishBlock(BlockIndex block);
  void AddGradient(const Block& block);

  const ReplicaClientOptions options_;
  const std::string no_state_;
  JobConfig config_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<Bucket> buckets_;  // in the order in which they are reduced
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<AllReduceCore> core_;  // null until Declare
  // Flat gradients. `sum_`: of the round's slots so far. `slot_`: of the current slot, if `sum_` holds earlier slots.
  std::vector<float> sum_, slot_;

  std::unique_ptr<CollectiveThread> thread_;  // null: no group
  std::vector<std::string> addresses_;        // of the group's members, by rank
  struct Counts {
    std::uint64_t reduced_bytes = 0, bytes_out = 0, bytes_out_before = 0;  // before: sent by earlier groups
    std::uint64_t groups_formed = 0, device_groups_formed = 0;
  };
  Counts counts_;

  // The current slot.
  OpenSlot open_;
  float* slot_gradient_ = nullptr;
  client::FinishedBlocks finished_;

  // The current round.
  float samples_ = 0;  // of the round's slots; when `samples_ticket_` is done, of all workers' slots
  Ticket samples_ticket_ = 0;
  std::vector<Ticket> tickets_;  // reductions, by bucket
};

// ---- rounds --------------------------------------------------------------------------------------------------------

Status ReplicaClient::Declare(const WorkerDescription& description) {
  if (catalog_) return Misuse("Declare comes once");
  CAPSTAN_ASSIGN_OR_RETURN(config_, ParseJobConfig(job_file(), "the coordinator's job file"));
  std::vector<TensorSpec> specs = client::SpecsOf(description.tensors, config_.optimizer);
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(specs));
  if (catalog.is_given() || catalog.group_count() > 0) return NotHere("Declare with given weights or with groups");
  catalog_ = std::make_unique<Catalog>(std::move(catalog));
  replica_ = std::make_unique<Replica>(*catalog_, config_);
  buckets_ = CutBuckets(*catalog_, static_cast<std::uint64_t>(config_.allreduce.bucket_mib * (1 << 20)));
  tickets_.assign(buckets_.size(), 0);
  core_ =
      std::make_unique<AllReduceCore>(*catalog_, buckets_, replica_->array_count() * replica_->array(0).size_bytes());
  sum_.resize(catalog_->element_count());
  loop().Send(session::DeclareCommand{client::DeclarationOf(description, config_, std::move(specs)), nullptr, nullptr});
  Declared();
  return {};
}

void ReplicaClient::GiveUpRound() {
  Execute(core_->GiveUpRound());
  if (on_devices()) devices()->EndSlot();
}

Result<std::optional<Work>> ReplicaClient::NextWork(Deadline deadline) {
  const FloatControl float_control;
  for (;;) {
    if (!core_ || !core_->is_settling()) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> next, ClientBase::NextWork(deadline));
      if (!next) return next;
    }
    const Status status = Settle(deadline);
    if (status.ok()) return std::optional<Work>(work());
    if (status.code() != Code::kStale) return status;
  }
}

Status ReplicaClient::Settle(Deadline deadline) {
  if (Status over = LookUp(); !over.ok()) {
    Execute(core_->EndRound(over));
    return over;
  }
  Execute(core_->Settle(Now()));
  while (core_->awaits_generation()) {
    CAPSTAN_RETURN_IF_ERROR(TakeEvent(deadline, "another group"));
    if (round_is_over()) Execute(core_->EndRound(Status(Code::kStale, "the generation is over")));
  }
  return core_->status();
}

void ReplicaClient::Execute(Commands commands) {
  while (!commands.empty()) {
    Commands next;
    for (const AllReduceCommand& command : commands) {
      next = Do(command);
      if (!next.empty()) break;  // the new commands replace the rest of the list
    }
    commands = std::move(next);
  }
}

Commands ReplicaClient::Do(const AllReduceCommand& command) {
  Commands next;
  std::visit(Overloaded{
                 [&](const ReportGroup& report) {
                   loop().Send(session::GroupCommand{report.generation, report.state, report.text});
                 },
                 [&](const Notify& notice) {
                   if (options_.on_notice) options_.on_notice(notice.text);
                 },
                 [&](const ConnectMembers& connect) { addresses_ = connect.addresses; },
                 [&](const PublishVersion&) { replica_->Publish(); },
                 [&](const BeginUpdate& begin) { replica_->BeginStep(begin.parameters, begin.samples, sum_.data()); },
                 [&](const UploadBlocks& upload) {
                   loop().Send(session::UploadCommand{round(), replica_->Made(upload.action), upload.blocks});
                 },
                 [&](const ReportSlot& slot) {
                   loop().Send(session::EndSlotCommand{round(), slot.report, {}});
                 },
                 [&](const auto& other) { next = On(other); },
             },
             command);
  return next;
}

// ---- the group -----------------------------------------------------------------------------------------------------

Commands ReplicaClient::On(const Meet& meet) {
  ConnectOptions options;
  if (EncryptsCollectives(config_)) options.create_mesh = collective::CreateSecureMesh;
  options.host = options_.host;
  options.wire = config_.allreduce.wire;
  options.silence = SilenceMax(config_);
  options.buckets = buckets_.size();
  options.exchange = [this](const std::string& address) { return OfferAddress(address); };
  Result<std::unique_ptr<CollectiveThread>> connected = ConnectGroup(meet, options);
  if (!connected.ok()) return core_->Fail(connected.status());
  thread_ = std::move(connected).value();
  return core_->Connected(Now());
}

// Offers this worker's address, waits until the core has the addresses of all members, and returns them.
Result<std::vector<std::string>> ReplicaClient::OfferAddress(const std::string& address) {
  Execute(core_->OfferAddress(address));
  while (core_->awaits_addresses()) {
    CAPSTAN_RETURN_IF_ERROR(LookUp());
    Execute(core_->Tick(Now()));
    if (!core_->awaits_addresses()) break;
    if (Status status = TakeEvent(Clock::now() + kGlanceEvery, "the other workers"); status.code() != Code::kTimeout) {
      CAPSTAN_RETURN_IF_ERROR(status);
    }
  }
  CAPSTAN_RETURN_IF_ERROR(core_->status());
  return addresses_;
}

Commands ReplicaClient::On(const ReadVersion& read) {
  const Status status = Read(read);
  return status.ok() ? core_->VersionRead() : core_->Fail(status);
}

Status ReplicaClient::Read(const ReadVersion& read) {
  ReaderOptions options;
  options.coordinator = options_.coordinator;
  options.key_file = options_.key_file;
  options.name = options_.worker;
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Reader> reader, Reader::Connect(options));
  PullOptions wish;
  wish.optimizer_state = true;
  Result<std::optional<PulledVersion>> pulled = reader->Pull(wish, Clock::now() + kGlanceEvery);
  // A repeated Pull keeps the blocks that have arrived already.
  while (pulled.status().code() == Code::kTimeout && Now() < read.deadline) {
    CAPSTAN_RETURN_IF_ERROR(LookUp());
    pulled = reader->Pull(wish, Clock::now() + kGlanceEvery);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::optional<PulledVersion> version, std::move(pulled));
  if (!version || version->step != read.version.value || version->generation != read.generation.value) {
    return {Code::kStale, "the job has gone on meanwhile"};
  }
  for (std::size_t i = 0; i < replica_->array_count(); ++i) {
    const float* const from = i == 0 ? reader->weights() : reader->state(i - 1);
    std::memcpy(replica_->array(i).data(), from, replica_->array(i).size_bytes());
  }
  return {};
}

Commands ReplicaClient::On(const ShareVersion& share) {
  const Status status = ShareReplica(
      share, [this] { return LookUp(); }, thread_.get(), replica_.get());
  return status.ok() ? core_->VersionShared() : core_->Fail(status);
}

Commands ReplicaClient::On(const FormDevices& form) {
  if (devices() != nullptr) {
    const DeviceMembers members{form.members, form.rank, form.generation, [this] { return LookUp(); }};
    const Status status = devices()->Form(members, sum_, buckets_.size(), thread_.get());
    if (!status.ok()) return core_->Fail(status);
  }
  ++counts_.groups_formed;
  if (on_devices()) ++counts_.device_groups_formed;
  counts_.bytes_out_before = counts_.bytes_out;
  return core_->DevicesFormed(on_devices());
}

Commands ReplicaClient::On(const EndGroup& end) {
  if (end.abort && thread_) thread_->Abort();
  thread_.reset();
  if (devices() != nullptr) devices()->End();
  return {};
}

// ---- slots ---------------------------------------------------------------------------------------------------------

Status ReplicaClient::WaitWeights(std::uint32_t first, std::uint32_t last, Deadline) {
  if (!catalog_ || !catalog_->Has(first, last)) {
    return Misuse("WaitWeights(" + std::to_string(first) + ", " + std::to_string(last) + ") names no tensors");
  }
  return LookUp();
}

Result<float*> ReplicaClient::BeginSlot(std::uint32_t slot, std::uint64_t samples) {
  CAPSTAN_RETURN_IF_ERROR(LookUp());
  if (!core_ || !core_->sums().IsNext(slot)) {
    return Misuse("BeginSlot(" + std::to_string(slot) + ") is not the next slot of the round");
  }
  if (!core_->is_computing()) return Status(Code::kStale, "the group is over");
  finished_.Begin(*catalog_);
  Execute(core_->BeginSlot(samples));
  CAPSTAN_RETURN_IF_ERROR(core_->status());
  return slot_gradient_;
}

Commands ReplicaClient::On(const OpenSlot& slot) {
  open_ = slot;
  const bool adds = slot.use == SumUse::kAdd;
  if (on_devices()) {
    if (slot.samples > 0) devices()->BeginSlot(slot.samples, adds ? SlotSum::kAdd : SlotSum::kReplace);
    if (slot.zero) devices()->SetZero();
  } else {
    if (adds) slot_.resize(sum_.size());
    if (slot.zero) std::fill(sum_.begin(), sum_.end(), 0.0F);
  }
  slot_gradient_ = slot.use == SumUse::kNone ? nullptr : adds && !on_devices() ? slot_.data() : sum_.data();
  return {};
}

Commands ReplicaClient::On(const ReduceSamples& reduce) {
  samples_ = static_cast<float>(reduce.samples);  // exact: a global batch has at most 2^24 samples
  const auto ticket = thread_->SubmitExactAllReduce(std::span(&samples_, 1), Clock::now() + kReduceMax);
  if (!ticket.ok()) return core_->Fail(ticket.status());
  samples_ticket_ = *ticket;
  return {};
}

Status ReplicaClient::GradientReady(std::uint32_t first, std::uint32_t last) {
  const FloatControl float_control;
  if (!core_ || !core_->sums().is_open() || !catalog_->Has(first, last)) {
    return Misuse("GradientReady(" + std::to_string(first) + ", " + std::to_string(last) +
                  ") names no tensors of a slot that was begun");
  }
  const Status taken = finished_.Take(*catalog_, first, last, [this](BlockIndex block) { FinishBlock(block); });
  if (!taken.ok()) {
    return Misuse("GradientReady(" + std::to_string(first) + ", " + std::to_string(last) + "): " + taken.message());
  }
  return core_->status();
}

Status ReplicaClient::GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) {
  const FloatControl float_control;
  const std::string call = "GradientReadyFrom(" + std::to_string(tensor) + ", " + std::to_string(element) + ")";
  if (!core_ || !core_->sums().is_open() || !catalog_->Has(tensor, tensor)) {
    return Misuse(call + " names no tensor of a slot that was begun");
  }
  const auto finished = [this](BlockIndex block) { FinishBlock(block); };
  const Status taken = finished_.TakeFrom(*catalog_, tensor, element, finished);
  return taken.ok() ? core_->status() : Misuse(call + ": " + taken.message());
}

// The gradient of a block is final for this slot. In the last slot this may complete its bucket.
void ReplicaClient::FinishBlock(BlockIndex index) {
  if (slot_gradient_ != nullptr && !on_devices()) AddGradient(catalog_->blocks()[index]);
  Execute(core_->FinishBlock(index));
}

void ReplicaClient::AddGradient(const Block& block) {
  const auto samples = static_cast<float>(open_.samples);
  float* __restrict sum = sum_.data() + block.flat_offset;
  if (open_.use == SumUse::kReplace) {
    for (std::uint32_t i = 0; i < block.count; ++i) sum[i] *= samples;
    return;
  }
  const float* __restrict slot = slot_.data() + block.flat_offset;
  for (std::uint32_t i = 0; i < block.count; ++i) sum[i] += slot[i] * samples;
}

Commands ReplicaClient::On(const ReduceBucket& reduce) {
  const Bucket& bucket = buckets_[reduce.bucket];
  if (on_devices()) {
    const Status status = devices()->AddBucket(reduce.bucket, bucket);
    return status.ok() ? Commands() : Lost(status);
  }
  const std::span<float> data(sum_.data() + bucket.flat_offset, bucket.count);
  const auto deadline = Clock::now() + kReduceMax;
  const auto ticket =
      bucket.statistics ? thread_->SubmitExactAllReduce(data, deadline) : thread_->SubmitAllReduce(data, deadline);
  if (!ticket.ok()) return core_->Fail(ticket.status());
  tickets_[reduce.bucket] = *ticket;
  return {};
}

Status ReplicaClient::EndSlot(std::uint32_t slot, const SlotResult& result) {
  const FloatControl float_control;
  if (!core_ || !core_->sums().IsOpen(slot)) {
    return Misuse("EndSlot(" + std::to_string(slot) + ") does not end the slot that was begun");
  }
  if (Status status = CheckMetrics(result.metrics); !status.ok()) {
    return Misuse("EndSlot(" + std::to_string(slot) + "): " + status.message());
  }
  finished_.TakeRest([this](BlockIndex block) { FinishBlock(block); });
  if (on_devices()) devices()->EndSlot();
  Execute(core_->EndSlot(client::ReportOf(slot, open_.samples, result)));
  CAPSTAN_RETURN_IF_ERROR(core_->status());
  return LookUp();
}

// ---- the next version ----------------------------------------------------------------------------------------------

// Waits until the collective is done or has failed, or the round is over.
ReplicaClient::Ended ReplicaClient::Await(Ticket ticket) {
  const session::WaitTimer timer(&loop().waits(), session::WaitKind::kExchange);
  for (;;) {
    const Status status = thread_->Wait(ticket, Clock::now() + kGlanceEvery);
    if (status.ok()) return std::nullopt;
    if (Status over = LookUp(); !over.ok()) return core_->EndRound(over);
    if (status.code() != Code::kBusy) return core_->Fail(status);
  }
}

Commands ReplicaClient::Lost(const Status& why) {
  const Status over = LookUp();
  return over.ok() ? core_->Fail(why) : core_->EndRound(over);
}

Commands ReplicaClient::On(const AwaitSamples&) {
  if (Ended ended = Await(samples_ticket_)) return *std::move(ended);
  return core_->SamplesReduced(static_cast<std::uint64_t>(samples_));
}

Commands ReplicaClient::On(const AwaitBucket& await) {
  if (on_devices()) {
    const session::WaitTimer timer(&loop().waits(), session::WaitKind::kExchange);
    const Status status = devices()->Await(await.bucket);
    if (!status.ok()) return Lost(status);
  } else if (Ended ended = Await(tickets_[await.bucket])) {
    return *std::move(ended);
  }
  return core_->BucketReduced();
}

Commands ReplicaClient::On(const UpdateBucket& update) {
  const Bucket& bucket = buckets_[update.bucket];
  for (BlockIndex block = bucket.last + 1; block-- > bucket.first;) replica_->UpdateBlock(block);
  return {};
}

Commands ReplicaClient::On(const FinishUpdate& finish) {
  if (on_devices()) devices()->StepDone();
  counts_.reduced_bytes += sum_.size() * sizeof(float);
  counts_.bytes_out = counts_.bytes_out_before + thread_->bytes_sent();
  return core_->VersionBuilt(replica_->FinishStep(finish.step));
}

ClientCounters ReplicaClient::counters() const {
  ClientCounters counters = ClientBase::counters();
  counters.reduced_bytes = counts_.reduced_bytes;
  counters.group_bytes_out = counts_.bytes_out;
  counters.groups_formed = counts_.groups_formed;
  counters.device_groups_formed = counts_.device_groups_formed;
  return counters;
}

}  // namespace

std::unique_ptr<Client> CreateReplicaClient(client::Connection connection, ReplicaClientOptions options) {
  return std::make_unique<ReplicaClient>(std::move(connection), std::move(options));
}

}  // namespace capstan::train
