#include "worker/machine/local_reducer.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/float_control.h"
#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "worker/collective/buckets.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/group.h"
#include "worker/machine/adder_choice.h"

namespace capstan::train {

namespace {

using session::PushWay;
using session::Session;
using Clock = std::chrono::steady_clock;
using collective::Deadline;

constexpr auto kJoinMax = std::chrono::seconds(5);  // to connect, once all addresses are known

// One round of this worker, from its last slot on; or a step that it has left without a round.
struct Job {
  client::LocalReduce::Round round;
  std::uint64_t epoch = 0;                    // epoch of the group at the round's beginning; 0: none
  std::vector<std::uint32_t> blocks_missing;  // blocks that are not final, by bucket
  bool given_up = false, done = false;

  bool whole() const {
    return std::all_of(blocks_missing.begin(), blocks_missing.end(), [](std::uint32_t count) { return count == 0; });
  }
  std::pair<Generation, Step> when() const { return {round.generation, round.step}; }
  bool IsBehind(const LocalHead& head) const { return when() < std::pair(head.generation, head.step); }
};

struct Shared {
  bool stopping = false;
  Session::LocalGroup wanted;  // the newest group from the coordinator
  std::uint64_t formed = 0;    // epoch of the current group
  collective::Group* group = nullptr;
  std::shared_ptr<Job> job;  // the newest round
  client::LocalReduce::Counters counters;
};

class LocalReducer : public client::LocalReduce {
 public:
  explicit LocalReducer(LocalReducerOptions options) : options_(std::move(options)) {}
  ~LocalReducer() override { Stop(); }

  void Begin(const Catalog& catalog, Encoding encoding, SendCommand send) override;
  void Stop() override;
  void TakeGroup(const Session::LocalGroup& group) override;
  void TakeStepDone(const Session::StepDone& left) override;
  PushWay BeginRound(Round round) override;
  void BlockReady(BlockIndex block) override;
  bool Done(client::LocalReduce::Deadline deadline) override;
  void GiveUpRound() override;
  Counters counters() const override {
    return shared_.With([](Shared& shared) { return shared.counters; });
  }

 private:
  class OfferedAddresses;

  // Used by the inner thread.
  void Run();
  std::optional<Session::LocalGroup> AwaitGroup(std::uint64_t tried);
  Result<std::unique_ptr<collective::Group>> Connect(const Session::LocalGroup& wanted);
  Status Form(const Session::LocalGroup& wanted, collective::Group* group);
  Status WorkInGroup(const Session::LocalGroup& wanted);
  Status Serve(std::uint64_t epoch, collective::Group* group);
  std::shared_ptr<Job> AwaitJob(std::uint64_t epoch, const std::shared_ptr<Job>& served);
  Result<std::vector<LocalHead>> Exchange(const LocalHead& mine, collective::Group* group);
  LocalHead HeadOf(const Job& job, std::uint64_t epoch);
  Status Reduce(Job* job, const LocalPlan& plan, std::uint64_t epoch, collective::Group* group);
  Status AddBuckets(Job* job, const LocalStep& step, const std::vector<BufferRef>& sums, std::uint64_t epoch,
                    collective::Group* group);
  bool HasCome(const Job& job, std::size_t bucket, std::uint64_t epoch) const;
  Status AwaitBucket(Job* job, std::size_t bucket, std::uint64_t epoch);
  void PushBlock(const Job& job, const LocalStep& step, BlockIndex index, const std::vector<BufferRef>& sums);
  void Finish(Job* job, PushWay way);
  void EndGroup(std::uint64_t epoch, const Status& why);
  bool IsOver(const Shared& shared, std::uint64_t epoch) const {
    return shared.stopping || shared.wanted.epoch != epoch;
  }

  const LocalReducerOptions options_;
  const Catalog* catalog_ = nullptr;
  Encoding encoding_ = Encoding::kFp32;
  SendCommand send_;
  std::vector<Bucket> buckets_;         // in the order in which they are sent
  std::vector<std::size_t> bucket_of_;  // bucket of each block

  // Used by the application's thread.
  std::shared_ptr<Job> job_;  // the current round; null: its blocks are not needed

  // Used by the inner thread.
  std::unique_ptr<BufferPool> pool_;  // flat arrays for sums; the session may hold one until its blocks are staged
  std::optional<AdderChoice> choice_;
  std::unique_ptr<BucketAdder> adder_;  // adder of the current group
  std::uint64_t bytes_before_ = 0;      // the group's bytes_sent() when last counted

  mutable Guarded<Shared> shared_;
  std::thread thread_;
};

// Exchanges addresses through the coordinator. Nothing else waits for this exchange, so it may take long.
class LocalReducer::OfferedAddresses : public collective::Rendezvous {
 public:
  OfferedAddresses(LocalReducer* reducer, std::uint64_t epoch) : reducer_(*reducer), epoch_(epoch) {}

  Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
    reducer_.send_(session::LocalGroupCommand{epoch_, GroupState::kOffered, std::move(bytes)});
    const auto known = [](const GroupMember& member) { return !member.address.empty(); };
    reducer_.shared_.AwaitUntil(Deadline::max(), [&](const Shared& shared) {
      const auto& members = shared.wanted.members;
      return shared.stopping || shared.wanted.epoch != epoch_ || std::all_of(members.begin(), members.end(), known);
    });
    return reducer_.shared_.With([&](const Shared& shared) -> Result<std::vector<std::string>> {
      if (shared.stopping || shared.wanted.epoch != epoch_) return Status(Code::kStale, "the group is over");
      std::vector<std::string> all;
      for (const GroupMember& member : shared.wanted.members) all.push_back(member.address);
      return all;
    });
  }

 private:
  LocalReducer& reducer_;
  const std::uint64_t epoch_;
};

// ---- from outside --------------------------------------------------------------------------------------------------

void LocalReducer::Begin(const Catalog& catalog, Encoding encoding, SendCommand send) {
  catalog_ = &catalog;
  encoding_ = encoding;
  send_ = std::move(send);
  buckets_ = CutBuckets(catalog, options_.bucket_bytes);
  bucket_of_ = BucketOfBlocks(buckets_, catalog);
  pool_ = std::make_unique<BufferPool>(catalog.element_count() * sizeof(float));
  choice_.emplace(AdderChoiceOptions{options_.device(), options_.libraries, options_.on_notice});
  thread_ = std::thread([this] { Run(); });
}

void LocalReducer::Stop() {
  if (!thread_.joinable()) return;
  shared_.Change([](Shared& shared) {
    shared.stopping = true;
    if (shared.group != nullptr) shared.group->Abort();
  });
  thread_.join();
}

void LocalReducer::TakeGroup(const Session::LocalGroup& group) {
  shared_.Change([&](Shared& shared) {
    if (shared.group != nullptr && shared.wanted.epoch != group.epoch) shared.group->Abort();
    shared.wanted = group;
  });
}

void LocalReducer::TakeStepDone(const Session::StepDone& left) {
  const auto job = std::make_shared<Job>();
  job->round.generation = left.generation;
  job->round.step = left.step;
  shared_.Change([&](Shared& shared) {
    if (!shared.job || shared.job->when() < job->when()) shared.job = job;
  });
}

PushWay LocalReducer::BeginRound(Round round) {
  job_.reset();
  const auto job = std::make_shared<Job>();
  for (const Bucket& bucket : buckets_) job->blocks_missing.push_back(bucket.last - bucket.first + 1);
  const bool few = round.parts.size() <= LocalHead::kPartsMax;
  job->round = std::move(round);
  return shared_.Change([&](Shared& shared) {
    // A second round of the same step computes slots that another worker did not finish in time. It must not wait for
    // others.
    if (shared.job && job->when() <= shared.job->when()) return PushWay::kNow;
    job->epoch = few && shared.formed == shared.wanted.epoch ? shared.formed : 0;
    if (job->epoch == 0) job->round.parts.clear();
    shared.job = job_ = job;
    return job->epoch == 0 ? PushWay::kNow : PushWay::kDeferred;
  });
}

void LocalReducer::BlockReady(BlockIndex block) {
  if (!job_) return;
  shared_.Change([&](Shared&) { --job_->blocks_missing[bucket_of_[block]]; });
}

bool LocalReducer::Done(client::LocalReduce::Deadline deadline) {
  return !job_ || shared_.AwaitUntil(deadline, [&](const Shared& shared) {
    return job_->done || job_->epoch == 0 || shared.wanted.rank != 0 || shared.wanted.epoch != job_->epoch;
  });
}

void LocalReducer::GiveUpRound() {
  if (!job_) return;
  shared_.Change([&](Shared&) { job_->given_up = !job_->whole(); });
  job_.reset();
}

// ---- the group -----------------------------------------------------------------------------------------------------

void LocalReducer::Run() {
  pthread_setname_np(pthread_self(), "local-reduce");
  const FloatControl float_control;
  std::uint64_t tried = 0;
  while (const std::optional<Session::LocalGroup> wanted = AwaitGroup(tried)) {
    tried = wanted->epoch;
    if (wanted->members.size() < 2) continue;
    EndGroup(wanted->epoch, WorkInGroup(*wanted));
  }
}

// Works until the group is over; returns the reason, never OK.
Status LocalReducer::WorkInGroup(const Session::LocalGroup& wanted) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<collective::Group> group, Connect(wanted));
  bytes_before_ = 0;
  Status status = Form(wanted, group.get());
  if (status.ok()) status = Serve(wanted.epoch, group.get());
  shared_.Change([](Shared& shared) {
    shared.group = nullptr;
    shared.formed = 0;
  });
  group->Abort();
  adder_.reset();
  return status;
}

std::optional<Session::LocalGroup> LocalReducer::AwaitGroup(std::uint64_t tried) {
  shared_.AwaitUntil(Deadline::max(),
                     [&](const Shared& shared) { return shared.stopping || shared.wanted.epoch != tried; });
  return shared_.With([](const Shared& shared) -> std::optional<Session::LocalGroup> {
    if (shared.stopping) return std::nullopt;
    return shared.wanted;
  });
}

Result<std::unique_ptr<collective::Group>> LocalReducer::Connect(const Session::LocalGroup& wanted) {
  OfferedAddresses addresses(this, wanted.epoch);
  const auto name_of = [members = wanted.members](int rank) { return members[static_cast<std::size_t>(rank)].worker; };
  const int size = static_cast<int>(wanted.members.size());
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<collective::Mesh> mesh,
                           collective::CreateGlooMesh({wanted.rank, size, options_.host, name_of, options_.silence},
                                                      &addresses, Clock::now() + kJoinMax));
  return collective::CreateGroup(std::move(mesh));
}

Status LocalReducer::Form(const Session::LocalGroup& wanted, collective::Group* group) {
  const Status over(Code::kStale, "the group is over");
  const auto is_over = [this, epoch = wanted.epoch](const Shared& shared) { return IsOver(shared, epoch); };
  const bool begins = shared_.Change([&](Shared& shared) {
    if (!is_over(shared)) shared.group = group;
    return !is_over(shared);
  });
  if (!begins) return over;
  const LocalMembers of{wanted.members, wanted.rank, wanted.epoch, [=, this] {
                          return shared_.With([&](const Shared& shared) { return is_over(shared) ? over : Status(); });
                        }};
  AdderOptions options{catalog_, encoding_, 0, options_.patience};
  for (const Bucket& bucket : buckets_) options.count_max = std::max(options.count_max, bucket.count);
  CAPSTAN_ASSIGN_OR_RETURN(adder_, choice_->Choose(of, options, group));
  const bool is_formed = shared_.Change([&](Shared& shared) {
    if (is_over(shared)) return false;
    shared.formed = wanted.epoch;
    ++shared.counters.groups_formed;
    if (choice_->on_devices()) ++shared.counters.device_groups_formed;
    return true;
  });
  if (!is_formed) return over;
  send_(session::LocalGroupCommand{wanted.epoch, GroupState::kFormed, {}});
  return {};
}

// Each member pushes by itself what the group has not pushed.
void LocalReducer::EndGroup(std::uint64_t epoch, const Status& why) {
  std::shared_ptr<Job> job;
  const bool over = shared_.With([&](const Shared& shared) {
    job = shared.job;
    return IsOver(shared, epoch);
  });
  if (job) Finish(job.get(), PushWay::kNow);
  if (over) return;
  if (options_.on_notice) {
    options_.on_notice("the workers of this machine push each for itself, until they have formed another group: " +
                       why.message());
  }
  // kUnsupported (the build cannot form a group) and kInvalid (too many workers for a mesh) will not change, so no
  // other group is requested.
  if (why.code() == Code::kUnsupported || why.code() == Code::kInvalid) return;
  send_(session::LocalGroupCommand{epoch, GroupState::kBroken, why.message()});
}

Status LocalReducer::Serve(std::uint64_t epoch, collective::Group* group) {
  std::shared_ptr<Job> served;
  for (;;) {
    const std::shared_ptr<Job> job = AwaitJob(epoch, served);
    if (!job) return {Code::kStale, "the group is over"};
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<LocalHead> heads, Exchange(HeadOf(*job, epoch), group));
    const auto is_ahead = [&](const LocalHead& head) { return job->IsBehind(head); };
    if (std::none_of(heads.begin(), heads.end(), is_ahead)) {
      const bool all = std::all_of(heads.begin(), heads.end(), [&](const LocalHead& head) {
        return head.generation == job->round.generation && head.step == job->round.step;
      });
      if (!all) continue;  // members on older steps come to it later
      const LocalPlan plan = PlanLocalSums(heads, job->round.slot_count);
      if (!plan.sums.empty()) {
        CAPSTAN_RETURN_IF_ERROR(Reduce(job.get(), plan, epoch, group));
        Finish(job.get(), PushWay::kDeferred);
        served = job;
        continue;
      }
    }
    Finish(job.get(), PushWay::kNow);
    served = job;
  }
}

// Waits for a round newer than `served`; null: the group is over.
std::shared_ptr<Job> LocalReducer::AwaitJob(std::uint64_t epoch, const std::shared_ptr<Job>& served) {
  const auto over = [&](const Shared& shared) { return IsOver(shared, epoch); };
  shared_.AwaitUntil(Deadline::max(), [&](const Shared& shared) { return over(shared) || shared.job != served; });
  return shared_.With([&](const Shared& shared) { return over(shared) ? nullptr : shared.job; });
}

// If a round began before the group was formed, or was given up, its worker pushes by itself.
LocalHead LocalReducer::HeadOf(const Job& job, std::uint64_t epoch) {
  const bool given_up = shared_.With([&](const Shared&) { return job.given_up; });
  LocalHead head{job.round.generation, job.round.step, job.epoch == epoch && !given_up, {}};
  if (!head.joins) return head;
  for (const client::SlotSums::PartialSum& part : job.round.parts) head.parts.push_back({part.node, part.samples});
  return head;
}

Result<std::vector<LocalHead>> LocalReducer::Exchange(const LocalHead& mine, collective::Group* group) {
  const auto size = static_cast<std::size_t>(group->size());
  std::vector<float> words(size * LocalHead::kFloats);
  const auto of = [&](std::size_t rank) {
    return std::span(words).subspan(rank * LocalHead::kFloats, LocalHead::kFloats);
  };
  mine.Write(of(static_cast<std::size_t>(group->rank())));
  CAPSTAN_RETURN_IF_ERROR(group->AllGather(words, Clock::now() + kApartMax));
  std::vector<LocalHead> heads;
  for (std::size_t rank = 0; rank < size; ++rank) heads.push_back(LocalHead::Read(of(rank)));
  return heads;
}

// ---- a step --------------------------------------------------------------------------------------------------------

// `way`: what the session does with the round's held pushes.
void LocalReducer::Finish(Job* job, PushWay way) {
  if (way == PushWay::kNow) {
    send_(session::ReleaseCommand{job->round.round});
  } else {
    send_(session::SumsMadeCommand{job->round.round});
  }
  shared_.Change([&](Shared&) {
    job->done = true;
    job->round.parts.clear();  // the session has its own references
  });
}

Status LocalReducer::Reduce(Job* job, const LocalPlan& plan, std::uint64_t epoch, collective::Group* group) {
  LocalStep step{plan, {}, {}, {}};
  for (const client::SlotSums::PartialSum& part : job->round.parts) {
    step.nodes.push_back(part.node);
    step.parts.push_back(part.gradient ? part.gradient.As<const std::byte>() : nullptr);
  }
  std::vector<BufferRef> sums;
  for (std::size_t i = 0; group->rank() == 0 && i < plan.sums.size(); ++i) {
    sums.push_back(pool_->Take());
    step.sums.push_back(sums.back().As<float>());
  }
  CAPSTAN_RETURN_IF_ERROR(AddBuckets(job, step, sums, epoch, group));
  choice_->StepDone();
  shared_.Change([&](Shared& shared) {
    shared.counters.reduced_bytes += catalog_->element_count() * sizeof(float);
    shared.counters.bytes_out += group->bytes_sent() - std::exchange(bytes_before_, group->bytes_sent());
  });
  return {};
}

Status LocalReducer::AddBuckets(Job* job, const LocalStep& step, const std::vector<BufferRef>& sums,
                                std::uint64_t epoch, collective::Group* group) {
  std::size_t begun = 0, finished = 0;
  const auto note = [&](Status status) {
    const bool is_over = shared_.With([&](const Shared& shared) { return IsOver(shared, epoch); });
    // Not the device's fault when a member is gone.
    if (!status.ok() && !is_over && group->failure().ok()) choice_->Failed(status);
    return status;
  };
  const auto push = [&](BlockIndex block) { PushBlock(*job, step, block, sums); };
  const auto finish = [&](std::size_t count) -> Status {
    for (; finished < count; ++finished) CAPSTAN_RETURN_IF_ERROR(note(adder_->Finish(push)));
    return {};
  };
  while (begun < buckets_.size()) {
    if (!HasCome(*job, begun, epoch)) CAPSTAN_RETURN_IF_ERROR(finish(begun));  // the next bucket may take long
    CAPSTAN_RETURN_IF_ERROR(AwaitBucket(job, begun, epoch));
    if (adder_->is_impatient()) CAPSTAN_RETURN_IF_ERROR(group->Barrier(Clock::now() + kApartMax));
    CAPSTAN_RETURN_IF_ERROR(note(adder_->Begin(step, buckets_[begun++])));
    CAPSTAN_RETURN_IF_ERROR(finish(begun - std::min(begun, adder_->ahead_max())));
  }
  return finish(begun);
}

bool LocalReducer::HasCome(const Job& job, std::size_t bucket, std::uint64_t epoch) const {
  return shared_.With(
      [&](const Shared& shared) { return IsOver(shared, epoch) || job.given_up || job.blocks_missing[bucket] == 0; });
}

Status LocalReducer::AwaitBucket(Job* job, std::size_t bucket, std::uint64_t epoch) {
  const auto come = [&](const Shared& shared) {
    return IsOver(shared, epoch) || job->given_up || job->blocks_missing[bucket] == 0;
  };
  shared_.AwaitUntil(Deadline::max(), come);  // no deadline: this worker's own slots take as long as they take
  return shared_.With([&](const Shared& shared) -> Status {
    if (IsOver(shared, epoch)) return {Code::kStale, "the group is over"};
    return job->given_up ? Status(Code::kStale, "its round was given up") : Status();
  });
}

void LocalReducer::PushBlock(const Job& job, const LocalStep& step, BlockIndex index,
                             const std::vector<BufferRef>& sums) {
  const Block& block = catalog_->blocks()[index];
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const LocalPlan::Sum& sum = step.plan.sums[i];
    session::PushCommand push{job.round.round, sum.node, index, sum.samples, job.round.loss_scale, 0, {}};
    if (sum.samples > 0) {
      const Encoding encoding = sum.node.IsLeaf() ? block.EncodingIn(encoding_) : Encoding::kFp32;
      const auto* const bytes = reinterpret_cast<const std::byte*>(step.sums[i] + block.flat_offset);
      push.payload = {sums[i], bytes, block.count * BytesPerNumber(encoding)};
      push.payload_hash = Hash64(push.payload.bytes());
    }
    send_(std::move(push));
  }
}

}  // namespace

std::unique_ptr<client::LocalReduce> CreateLocalReducer(LocalReducerOptions options) {
  return std::make_unique<LocalReducer>(std::move(options));
}

}  // namespace capstan::train
