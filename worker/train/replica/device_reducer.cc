#include "worker/train/replica/device_reducer.h"

#include <utility>

namespace capstan::train {

namespace {

using collective::DeviceGroup;
using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;

constexpr auto kLookUp = std::chrono::milliseconds(20);
constexpr auto kTellMax = std::chrono::minutes(10);  // the coordinator knows sooner who is gone
constexpr auto kConnectMax = std::chrono::seconds(15);
constexpr auto kReduceMax = std::chrono::hours(24);  // who has handed over everything has deadlines of its own
constexpr std::chrono::duration<double> kForEver = kReduceMax;
constexpr double kSlowestMiBPerSecond = 10;

constexpr char kHas = '+', kHasNot = '-';  // in front of what a member says

std::string TextOf(const Result<GroupDevice>& device) {
  return device.ok() ? kHas + device->id + " " + device->library : kHasNot + device.status().message();
}

std::string NameOf(const DeviceMembers& of, std::size_t rank) { return "\"" + of.members[rank].worker + "\""; }

// Empty where all can.
std::string WhyNot(const DeviceMembers& of, const Texts& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty() || texts[rank].front() != kHas) {
      return NameOf(of, rank) + ": " + texts[rank].substr(texts[rank].empty() ? 0 : 1);
    }
  }
  const auto device_of = [&](std::size_t rank) { return texts[rank].substr(0, texts[rank].find(' ')); };
  const auto library_of = [&](std::size_t rank) { return texts[rank].substr(texts[rank].find(' ') + 1); };
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (library_of(rank) != library_of(0)) {
      return NameOf(of, rank) + " has " + library_of(rank) + ", " + NameOf(of, 0) + " has " + library_of(0) +
             ": install the same on all machines";
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (device_of(other) == device_of(rank)) {
        return NameOf(of, other) + " and " + NameOf(of, rank) + " compute on one device, which NCCL refuses: start " +
               "no more workers on a machine than it has GPUs";
      }
    }
  }
  return "";
}

// What the members say of the group that they have formed, or not.
std::string WhyNotFormed(const DeviceMembers& of, const Texts& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) return NameOf(of, rank) + ": " + texts[rank];
  }
  return "";
}

}  // namespace

std::unique_ptr<DeviceReducer> DeviceReducer::Create(const JobConfig& config, const kernels::LibrarySearch& libraries,
                                                     std::function<void(const std::string&)> on_notice,
                                                     JobModel& model) {
  const AllReduceSection& section = config.allreduce;
  if (!WorkersUpdate(config.job.mode) || config.worker.device.kind == DeviceKind::kCpu) return nullptr;
  if (section.collective == Collective::kGloo) return nullptr;
  const std::chrono::duration<double> patience(config.limits.lease + section.bucket_mib / kSlowestMiBPerSecond);
  return std::make_unique<DeviceReducer>(
      DeviceReducerOptions{section.collective, section.wire, patience, libraries, std::move(on_notice)}, model);
}

DeviceReducer::DeviceReducer(DeviceReducerOptions options, JobModel& model)
    : options_(std::move(options)), model_(model) {}

DeviceReducer::~DeviceReducer() { End(); }

Status DeviceReducer::Check() const {
  if (options_.collective != Collective::kNccl) return {};
  const Status status = model_.FindGroupDevice(options_.libraries).status();
  if (status.ok()) return {};
  return Unsupported("[allreduce] collective = \"nccl\", and this worker cannot: " + status.message() +
                     "; or set \"auto\", which takes Gloo then");
}

// What a member needs to take part.
Result<GroupDevice> DeviceReducer::Offer(std::span<float> sum) {
  if (failures_ >= kTriesMax) {
    return Unsupported("its groups of devices ended " + std::to_string(failures_) +
                       " times before a step was done, the last time: " + last_failure_.message());
  }
  CAPSTAN_ASSIGN_OR_RETURN(GroupDevice device, model_.FindGroupDevice(options_.libraries));
  CAPSTAN_ASSIGN_OR_RETURN(sum_, model_.Sum(sum, options_.wire));
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
  CAPSTAN_ASSIGN_OR_RETURN(const Texts devices, members->Exchange(of_.rank, TextOf(device), Clock::now() + kTellMax));
  if (std::string why_not = WhyNot(of_, devices); !why_not.empty()) return why_not;
  collective::DeviceGroupOptions options{of_.rank, static_cast<int>(of_.members.size()), of_.generation.value};
  options.name_of = [all = of_.members](int rank) { return all[static_cast<std::size_t>(rank)].worker; };
  options.libraries = options_.libraries;
  options.look_up = of_.look_up;
  auto formed = model_.CreateGroup(options, members, Clock::now() + kConnectMax);
  CAPSTAN_RETURN_IF_ERROR(members->failure());
  const std::string failure = formed.ok() ? "" : formed.status().message();
  CAPSTAN_ASSIGN_OR_RETURN(const Texts ends, members->Exchange(of_.rank, failure, Clock::now() + kTellMax));
  std::string why_not = WhyNotFormed(of_, ends);
  if (!why_not.empty()) return why_not;
  group_ = std::move(*formed);
  Say("gradients are added up on the devices of " + std::to_string(of_.members.size()) + " workers, by " +
      device->library);
  return why_not;
}

void DeviceReducer::End() {
  if (sum_ != nullptr) sum_->EndSlot();
  if (group_ == nullptr) return;
  group_->Abort();
  (void)sum_->Settle().ok();  // copies wait for the group's calls; a device that has failed ends the worker later
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
  failures_ = 0;
  (void)sum_->Settle().ok();  // copies are counted anew; nothing is on its way
}

Status DeviceReducer::Note(Status status) {
  if (!status.ok() && of_.look_up().ok()) {
    ++failures_;
    last_failure_ = status;
  }
  return status;
}

void DeviceReducer::Say(const std::string& text) {
  if (text != std::exchange(said_, text)) options_.on_notice(text);
}

}  // namespace capstan::train
