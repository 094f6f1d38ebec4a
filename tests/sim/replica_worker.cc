#include "tests/sim/replica_worker.h"

#include <algorithm>
#include <utility>

#include "common/config/job_config.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "tests/sim/model.h"

namespace capstan::sim {

using session::Session;

namespace {

constexpr Instant kConnectMax = std::chrono::seconds(15);  // as in form_group.cc
constexpr char kHas = '+', kHasNot = '-';

}  // namespace

ReplicaWorker::ReplicaWorker(Settings settings, const JobConfig& config, Session* session)
    : settings_(std::move(settings)), session_(session), replica_(*settings_.catalog, config) {}

void ReplicaWorker::TakeWork(Session::WorkReady& ready) {
  work_ = std::move(ready.work);
  void_ = submitted_ = false;
  state_ = State::kSettling;
}

void ReplicaWorker::TakeVoid(std::uint64_t round) {
  if (state_ != State::kIdle && work_.round == round) void_ = true;
}

void ReplicaWorker::Run(Instant now, Outbox* out) {
  const bool hears = state_ != State::kConnecting && state_ != State::kSharing;
  if (void_ && hears) GiveUp(now, out);
  if (state_ == State::kIdle || state_ == State::kWaiting || now < until_) return;
  switch (state_) {
    case State::kSettling: return Settle(now, out);
    case State::kOffered: return Connect(now, out);
    case State::kConnecting: return Share(now, out);
    case State::kSharing: return TakeShared(now, out);
    case State::kComputing: return Submit(now);
    case State::kReducing: return Reduce(now, out);
    default: return;
  }
}

// A round given up while its sum is under way leaves the others without this worker.
void ReplicaWorker::GiveUp(Instant now, Outbox* out) {
  if (group_ != nullptr && submitted_) Break(GroupState::kBroken, "its round was given up", now, out);
  void_ = submitted_ = false;
  until_ = {};
  state_ = State::kIdle;
}

void ReplicaWorker::LeaveGroup() {
  if (group_ != nullptr) group_->gone.insert(settings_.node);
  group_ = nullptr;
}

void ReplicaWorker::Break(GroupState state, const std::string& why, Instant now, Outbox* out) {
  settings_.count(state == GroupState::kLost ? "nobody had the version any more" : "group broken by a member");
  LeaveGroup();
  session_->ReportGroup(group_of_, state, why, now, out);
  submitted_ = false;
  until_ = {};
  state_ = State::kIdle;
}

// ---- the version and the group -------------------------------------------------------------------------------------

void ReplicaWorker::Settle(Instant now, Outbox* out) {
  const Generation generation = work_.generation;
  const bool has_version = TakeVersion();
  if (settings_.flaw == Flaw::kGroupKept && group_ != nullptr && has_version) return BeginStep(now);
  if (group_of_ == generation && group_ == nullptr) {
    settings_.count("worker without a group waits for another generation");
    state_ = State::kWaiting;
  } else if (group_of_ == generation && has_version) {
    BeginStep(now);
  } else if (group_of_ == generation) {
    Break(GroupState::kBroken, "its replica is not at the job's version", now, out);
  } else if (work_.group.empty()) {
    settings_.count("round of a group that is given up already");
    state_ = State::kWaiting;
  } else {
    Offer(now, out);
  }
}

// The terms that it uses; with a planted fault, other terms than it was given.
session::StepTerms ReplicaWorker::Believed() const {
  session::StepTerms terms = work_.terms;
  const auto believe = [&](Flaw flaw, const std::optional<train::ReplicaVersion::Name>& name) {
    if (settings_.flaw == flaw && name && name->version == terms.version) terms.made_in = name->made_in;
  };
  believe(Flaw::kReplicaOfAnyGeneration, version_.present());
  believe(Flaw::kMadeInAnyGeneration, version_.built());
  return terms;
}

bool ReplicaWorker::TakeVersion() {
  using Taking = train::ReplicaVersion::Taking;
  const std::optional<train::ReplicaVersion::Name> built = version_.built();
  const bool is_next = built && built->version == work_.terms.version;
  const Taking taking = version_.Take(Believed());
  if (is_next && taking == Taking::kNot && built->made_in != work_.terms.made_in) {
    settings_.count("version made in a generation that did not commit it");
  }
  const bool taken = taking == Taking::kBuilt || taking == Taking::kSkipped;
  if (taken && built->made_in != work_.generation) settings_.count("version made before its generation was over");
  if (taking == Taking::kBuilt) replica_.Publish();
  if (taking == Taking::kSkipped) settings_.count("version of a skipped step taken");
  return taking != Taking::kNot;
}

void ReplicaWorker::Offer(Instant now, Outbox* out) {
  LeaveGroup();
  group_of_ = work_.generation;
  known_.reset();
  const bool has = version_.MayHandOn(Believed());
  if (!has) version_.Forget();
  session_->ReportGroup(group_of_, GroupState::kOffered, (has ? kHas : kHasNot) + std::to_string(settings_.node), now,
                        out);
  deadline_ = now + kConnectMax;
  state_ = State::kOffered;
}

void ReplicaWorker::Connect(Instant now, Outbox* out) {
  if (!known_) {
    if (now >= deadline_) Break(GroupState::kBroken, "the addresses did not come", now, out);
    return;
  }
  if (known_->members.size() != work_.group.size() || known_->rank != work_.rank) {
    state_ = State::kIdle;
    return;
  }
  const bool fails = settings_.options->unconnected || (!Calm(now) && Chance(0.03));
  if (fails) return Break(GroupState::kBroken, "no connection", now, out);
  group_ = settings_.board->Connect(known_->members, group_of_, work_.rank);
  calls_ = 0;
  until_ = now + Up_to(Chance(0.1) ? 1000 : 20);
  state_ = State::kConnecting;
}

// When all are connected, a member with the version sends it to the others, or the first member reads it for all.
void ReplicaWorker::Share(Instant now, Outbox* out) {
  if (!group_->connected() || (!Calm(now) && Chance(0.01))) {
    const bool seen = group_->broken() && Chance(0.1);
    if (seen || group_->connected() || now >= deadline_) Break(GroupState::kBroken, "no connection", now, out);
    return;
  }
  const auto has = [](const GroupMember& member) { return member.address.front() == kHas; };
  const std::vector<GroupMember>& all = known_->members;
  if (std::all_of(all.begin(), all.end(), has)) return Formed(now, out);
  const auto source = std::find_if(all.begin(), all.end(), has);
  const bool known = source != all.end();
  const int root = known ? static_cast<int>(source - all.begin()) : 0;
  if (!known && !work_.terms.on_shards) return Break(GroupState::kLost, "nobody has the version", now, out);
  if (work_.rank == root && !known) {
    settings_.count("version read from the shards");
    std::optional<Arrays> read = settings_.read(work_.terms.version, group_of_);
    if (!read) {  // the job has moved on, or a shard is lost: another generation will come
      LeaveGroup();
      void_ = false;
      state_ = State::kIdle;
      return;
    }
    group_->version = std::move(read);
  }
  if (work_.rank == root && known) {
    settings_.count("version handed on by a member");
    group_->version = Present();
  }
  until_ = now + Up_to(Chance(0.1) ? 1000 : 20);
  state_ = State::kSharing;
}

void ReplicaWorker::TakeShared(Instant now, Outbox* out) {
  if (!group_->version) {
    if (group_->broken() && Chance(0.1)) Break(GroupState::kBroken, "the version did not come", now, out);
    return;
  }
  for (std::size_t i = 0; i < replica_.array_count(); ++i) {
    std::copy((*group_->version)[i].begin(), (*group_->version)[i].end(), replica_.array(i).begin());
  }
  replica_.Filled();
  Formed(now, out);
}

void ReplicaWorker::Formed(Instant now, Outbox* out) {
  version_.Become(work_.terms);
  settings_.count("groups formed");
  session_->ReportGroup(group_of_, GroupState::kFormed, {}, now, out);
  BeginStep(now);
}

Arrays ReplicaWorker::Present() {
  Arrays arrays;
  for (std::size_t i = 0; i < replica_.array_count(); ++i) {
    arrays.emplace_back(replica_.array(i).begin(), replica_.array(i).end());
  }
  return arrays;
}

// ---- a step --------------------------------------------------------------------------------------------------------

void ReplicaWorker::BeginStep(Instant now) {
  if (settings_.options->slots < settings_.options->shards) settings_.count("step without a slot on some shard");
  state_ = State::kComputing;
  until_ = now + Up_to(60);
  const double slow = settings_.options->slow_computing;
  if (slow > 0 && !Calm(now) && Chance(slow)) until_ += Up_to(6000);
}

void ReplicaWorker::Submit(Instant now) {
  settings_.computes_with(work_.generation, work_.terms.version, Present());
  RingPart part = MakePart(*settings_.options, *settings_.catalog, replica_.weights(), work_.step, work_.slots);
  std::vector<std::map<int, RingPart>>& calls = group_->calls;
  if (calls.size() == calls_) calls.emplace_back();
  for (const auto& [rank, other] : calls[calls_]) {
    if (other.step != work_.step) violation_ = "gradients of two steps are added up";
  }
  calls[calls_++][work_.rank] = std::move(part);
  submitted_ = true;
  until_ = now + Up_to(20);
  state_ = State::kReducing;
}

// Each member has the sum at its own time, once all have contributed.
void ReplicaWorker::Reduce(Instant now, Outbox* out) {
  if (!group_->IsWhole(calls_ - 1)) {
    if (group_->broken() && Chance(0.02)) Break(GroupState::kBroken, "a member is gone", now, out);
    return;
  }
  if (!Calm(now) && group_->broken() && Chance(0.3)) {
    return Break(GroupState::kBroken, "a member was gone before the sum was here", now, out);
  }
  FinishStep(now, out);
}

void ReplicaWorker::FinishStep(Instant now, Outbox* out) {
  const RingPart all = Sum(group_->calls[calls_ - 1]);
  sum_ = all.sum;
  StepParameters parameters;
  parameters.updates = work_.updates;
  parameters.learning_rate = work_.terms.learning_rate;
  replica_.BeginStep(parameters, all.samples, sum_.data());
  for (BlockIndex block = static_cast<BlockIndex>(settings_.catalog->blocks().size()); block-- > 0;) {
    replica_.UpdateBlock(block);
  }
  const train::Replica::Outcome outcome = replica_.FinishStep(work_.step);
  const Version next{work_.step.value + 1};
  version_.Build(next, settings_.flaw == Flaw::kGroupKept ? work_.generation : group_of_, outcome.action);
  const std::vector<Slice> made = replica_.Made(outcome.action);
  Arrays arrays;
  for (const Slice& slice : made) {
    const auto* values = reinterpret_cast<const float*>(slice.data);
    arrays.emplace_back(values, values + slice.size / sizeof(float));
  }
  settings_.made(work_.generation, next, arrays);
  if (work_.terms.upload_next) session_->UploadVersion(work_.round, made, BlocksToGive(), now, out);
  EndSlots(outcome, now, out);
  submitted_ = false;
  state_ = State::kIdle;
}

void ReplicaWorker::EndSlots(const train::Replica::Outcome& outcome, Instant now, Outbox* out) {
  for (SlotIndex slot : work_.slots) {
    SlotReport report;
    report.slot = slot;
    report.samples = SamplesOf(*settings_.options, work_.step, slot);
    report.loss_sum = static_cast<double>(slot) + static_cast<double>(work_.step.value);
    report.predictions = report.samples;
    report.gradient_squares = outcome.gradient_squares;
    report.replica_hash = outcome.hash;
    session_->EndSlot(work_.round, report, {}, now, out);
  }
}

// Each worker uploads its share of a version that all have.
std::vector<BlockIndex> ReplicaWorker::BlocksToGive() {
  std::vector<BlockIndex> blocks;
  if (settings_.flaw == Flaw::kShareForgotten && work_.rank > 0) return blocks;
  if (work_.group.empty()) violation_ = "a worker does not know how many share a version that is to be kept";
  const auto workers = static_cast<BlockIndex>(std::max<std::size_t>(work_.group.size(), 1));
  for (auto block = static_cast<BlockIndex>(work_.rank); block < settings_.catalog->blocks().size(); block += workers) {
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace capstan::sim
