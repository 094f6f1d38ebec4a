// DeviceReducer: the members of a generation add up their gradients on the devices that make them, where all can.
//
// Kind:   owned by the trainer's thread; destroyed before the model.
// Limits: a bucket that is not reduced `patience` after all members have handed over theirs ends the group.
// Fails:  Form with kUnsupported where the job file insists and somebody cannot; as the group over which they agree.
//         AddBucket and Await as DeviceGroup, and with what `look_up` says.
// Why:    one word in the job file: who has what is found out by each group, over the one that all of them have.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/config/job/collective_kind.h"
#include "common/config/job/forward.h"
#include "worker/allreduce/group_rendezvous.h"
#include "worker/collective/buckets.h"
#include "worker/collective/collective_thread.h"
#include "worker/collective/device_group.h"
#include "worker/collective/device_meeting.h"
#include "worker/device/job_model.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::train {

struct DeviceReducerOptions {
  Collective collective = Collective::kAuto;
  Encoding wire = Encoding::kFp32;
  std::chrono::duration<double> patience = std::chrono::seconds(60);
  kernels::LibrarySearch libraries = {};
  std::function<void(const std::string&)> on_notice = [](const std::string&) {};
};

// A generation's.
struct DeviceMembers {
  std::vector<GroupMember> members;  // by rank
  int rank = 0;
  Generation generation;
  std::function<Status()> look_up = [] { return Status(); };  // not OK: it is over
};

class DeviceReducer {
 public:
  // Null where a job's gradients are none of a device's business. `model` outlives it.
  static std::unique_ptr<DeviceReducer> Create(const JobConfig& config, const kernels::LibrarySearch& libraries,
                                               std::function<void(const std::string&)> on_notice, JobModel& model);
  DeviceReducer(DeviceReducerOptions options, JobModel& model);
  ~DeviceReducer();
  DeviceReducer(const DeviceReducer&) = delete;
  DeviceReducer& operator=(const DeviceReducer&) = delete;

  // Of the job file's word alone: whether this worker may begin at all.
  Status Check() const;
  // All members call it, over their group. `sum`: of the round, on the host, as long as the model lives. OK and not
  // is_formed: gradients take the other way.
  Status Form(DeviceMembers of, std::span<float> sum, std::size_t buckets, collective::CollectiveThread* group);
  bool is_formed() const { return group_ != nullptr; }
  // Gives up what is on its way; nothing writes to the sum any more.
  void End();

  // A round, once formed. What the model delivers within a slot goes into the sum.
  void BeginSlot(std::uint64_t samples, SlotSum sum) { sum_->BeginSlot(samples, sum); }
  void EndSlot() { sum_->EndSlot(); }
  void SetZero() { sum_->SetZero(); }
  // All of it is enqueued. All members add their buckets in one order.
  Status AddBucket(std::size_t index, const Bucket& bucket);
  // All members have added theirs: until it is reduced, and on the host.
  Status Await(std::size_t index);
  void StepDone();

 private:
  struct OnTheWay {
    collective::DeviceGroup::Ticket ticket = 0;
    DeviceSum::Copy copy = 0;
  };

  Result<GroupDevice> Offer(std::span<float> sum);
  // Empty when the group is formed, else why some member cannot.
  Result<std::string> Connect(const Result<GroupDevice>& device, GroupRendezvous* members);
  Status AwaitReduced(collective::DeviceGroup::Ticket ticket, std::chrono::duration<double> patience);
  Status Note(Status status);
  void Say(const std::string& text);

  const DeviceReducerOptions options_;
  JobModel& model_;
  DeviceMembers of_;
  DeviceSum* sum_ = nullptr;  // the model's
  std::unique_ptr<collective::DeviceGroup> group_;
  std::vector<OnTheWay> on_the_way_;  // by bucket
  std::string said_;
  collective::DeviceGroup::Ticket last_ticket_ = 0;
  DeviceTries tries_;
};

}  // namespace capstan::train
