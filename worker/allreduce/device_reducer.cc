#include "worker/allreduce/device_reducer.h"

#include <utility>

#include "common/config/job/allreduce_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/group.h"
#include "worker/allreduce/member_patience.h"

namespace capstan::train {

namespace {

using collective::DeviceGroup;
using Clock = std::chrono::steady_clock;

constexpr auto kLookUp = std::chrono::milliseconds(20);
constexpr auto kConnectMax = std::chrono::seconds(15);
// Long, because a member may be slow to enqueue its bucket. Await waits at most `patience`.
constexpr auto kReduceMax = std::chrono::hours(24);
constexpr std::chrono::duration<double> kForEver = kReduceMax;

}  // namespace

Result<std::unique_ptr<DeviceReducer>> DeviceReducer::Create(const JobConfig& config,
                                                             const kernels::LibrarySearch& libraries,
                                                             std::function<void(const std::string&)> on_notice,
                                                             JobModel& model) {
  const AllReduceSection& section = config.allreduce;
  const bool on_host = config.worker.device.kind == DeviceKind::kCpu || !MayUseDevices(CollectiveOf(config));
  if (!WorkersUpdate(config.mode()) || on_host) return std::unique_ptr<DeviceReducer>();
  CAPSTAN_ASSIGN_OR_RETURN(ModelDevice* const device, model.device());
  return std::make_unique<DeviceReducer>(
      DeviceReducerOptions{section.collective, section.wire, DevicePatience(config), libraries, std::move(on_notice)},
      *device);
}

DeviceReducer::DeviceReducer(DeviceReducerOptions options, ModelDevice& device)
    : options_(std::move(options)), device_(device) {}

DeviceReducer::~DeviceReducer() { End(); }

Status DeviceReducer::Check() const {
  if (options_.collective != Collective::kNccl) return {};
  const Status status = device_.FindGroupDevice(options_.libraries).status();
  if (status.ok()) return {};
  return Unsupported("[allreduce] collective = \"nccl\", and this worker cannot: " + status.message() +
                     "; or set \"auto\", which takes Gloo then");
}

// Allocates this member's sum on its device; returns what the other members need to know of the device.
Result<GroupDevice> DeviceReducer::Offer(std::span<float> sum) {
  CAPSTAN_ASSIGN_OR_RETURN(GroupDevice device, device_.FindGroupDevice(options_.libraries));
  CAPSTAN_ASSIGN_OR_RETURN(sum_, device_.Sum(sum, options_.wire));
  return device;
}

Status DeviceReducer::Form(DeviceMembers of, std::span<float> sum, std::size_t buckets,
                           collective::CollectiveThread* group) {
  End();
  of_ = std::move(of);
  if (of_.members.size() == 1) return {};  // nothing to reduce
  GroupRendezvous members(group, of_.look_up);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string why_not, Connect(Offer(sum), &members));
  if (why_not.empty()) {
    on_the_way_.assign(buckets, {});
    return {};
  }
  if (options_.collective == Collective::kNccl) {
    return Unsupported("[allreduce] collective = \"nccl\", and not all workers can: " + why_not +
                       "; or set \"auto\", which takes Gloo then");
  }
  Say("gradients are added up over Gloo, because not all workers can on their devices: " + why_not);
  return {};
}

Result<std::string> DeviceReducer::Connect(const Result<GroupDevice>& device, GroupRendezvous* members) {
  collective::DeviceGroupOptions options{of_.rank, static_cast<int>(of_.members.size()), of_.generation.value};
  options.name_of = [all = of_.members](int rank) { return all[static_cast<std::size_t>(rank)].worker; };
  options.libraries = options_.libraries;
  options.look_up = of_.look_up;
  std::unique_ptr<DeviceGroup> group;
  const auto form = [&](collective::Rendezvous* rendezvous) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(group, device_.CreateGroup(options, rendezvous, Clock::now() + kConnectMax));
    return {};
  };
  CAPSTAN_ASSIGN_OR_RETURN(std::string why_not, MeetOnDevices(of_.members, of_.rank, device, &tries_, members, form));
  if (!why_not.empty()) return why_not;
  group_ = std::move(group);
  Say("gradients are added up on the devices of " + std::to_string(of_.members.size()) + " workers, by " +
      device->backend);
  return why_not;
}

void DeviceReducer::End() {
  if (sum_ != nullptr) sum_->EndSlot();
  if (group_ == nullptr) return;
  group_->Abort();
  (void)sum_->Settle().ok();  // copies wait for the group's calls; a failed device ends the worker later
  group_.reset();
}

Status DeviceReducer::AddBucket(std::size_t index, const Bucket& bucket) {
  const SumRange range{bucket.flat_offset, bucket.count, bucket.statistics};
  const collective::DeviceArray array = sum_->ToReduce(range);
  auto ticket = group_->SubmitAllReduce(array, Clock::now() + kReduceMax);
  if (ticket.status().code() == Code::kBusy) {
    const DeviceGroup::Ticket oldest = last_ticket_ + 1 - DeviceGroup::kCallsMax;
    CAPSTAN_RETURN_IF_ERROR(AwaitReduced(oldest, kForEver));
    ticket = group_->SubmitAllReduce(array, Clock::now() + kReduceMax);
  }
  CAPSTAN_RETURN_IF_ERROR(Note(ticket.status()));
  last_ticket_ = *ticket;
  CAPSTAN_RETURN_IF_ERROR(Note(group_->OrderAfter(*ticket, sum_->stream())));
  on_the_way_[index] = {*ticket, sum_->Return(range)};
  return {};
}

Status DeviceReducer::Await(std::size_t index) {
  CAPSTAN_RETURN_IF_ERROR(AwaitReduced(on_the_way_[index].ticket, options_.patience));
  return sum_->Await(on_the_way_[index].copy);
}

Status DeviceReducer::AwaitReduced(DeviceGroup::Ticket ticket, std::chrono::duration<double> patience) {
  const auto begin = Clock::now();
  for (;;) {
    const Status status = group_->Wait(ticket, Clock::now() + kLookUp);
    if (status.code() != Code::kBusy) return Note(status);
    CAPSTAN_RETURN_IF_ERROR(of_.look_up());
    if (Clock::now() - begin < patience) continue;
    return Note(Timeout("the devices of " + std::to_string(of_.members.size()) +
                        " workers did not add up a bucket in " + std::to_string(static_cast<int>(patience.count())) +
                        " s after all had handed it over; NCCL " + "does not say for which it waited"));
  }
}

void DeviceReducer::StepDone() {
  tries_.StepDone();
  (void)sum_->Settle().ok();  // restarts the numbers of copies; none is in flight
}

Status DeviceReducer::Note(Status status) {
  if (!status.ok() && of_.look_up().ok()) tries_.Failed(status);
  return status;
}

void DeviceReducer::Say(const std::string& text) {
  if (text != std::exchange(said_, text)) options_.on_notice(text);
}

}  // namespace capstan::train
