// DeviceReducer: the members of a generation add up their gradients on the devices that compute them, if all can.
//
// Kind:   owned by the trainer's thread; destroyed before the model.
// Limits: Await fails if a bucket is not reduced within `patience`.
// Fails:  Form with kUnsupported if the job file requires devices and a member cannot; also as the Gloo group that is
//         used to agree. AddBucket and Await as DeviceGroup, and with the status of `look_up`.
// Why:    the job file has one setting for all workers, whose devices may differ. So each group finds out what its
//         members' devices can do, over the Gloo group that exists in any case.
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

// The members of a generation's group, and this worker's rank among them.
struct DeviceMembers {
  std::vector<GroupMember> members;  // by rank
  int rank = 0;
  Generation generation;
  std::function<Status()> look_up = [] { return Status(); };  // not OK: the generation is over
};

class DeviceReducer {
 public:
  // Null if the job file does not let devices reduce, or the worker computes on the CPU. `model` outlives the reducer.
  static Result<std::unique_ptr<DeviceReducer>> Create(const JobConfig& config, const kernels::LibrarySearch& libraries,
                                                       std::function<void(const std::string&)> on_notice,
                                                       JobModel& model);
  // `device` outlives the reducer.
  DeviceReducer(DeviceReducerOptions options, ModelDevice& device);
  ~DeviceReducer();
  DeviceReducer(const DeviceReducer&) = delete;
  DeviceReducer& operator=(const DeviceReducer&) = delete;

  // kUnsupported if the job file requires devices and this worker cannot use one.
  Status Check() const;
  // Every member must call Form; the members agree over `group`. `sum`: the host's array for a round's sum; it must
  // outlive the model. If the result is OK but is_formed() is false, gradients are summed over `group`.
  Status Form(DeviceMembers of, std::span<float> sum, std::size_t buckets, collective::CollectiveThread* group);
  bool is_formed() const { return group_ != nullptr; }
  // Gives up buckets in flight. Afterwards no device writes to the host's sum.
  void End();

  // The functions below need a formed group. Between BeginSlot and EndSlot the model adds its gradients to the sum.
  void BeginSlot(std::uint64_t samples, SlotSum sum) { sum_->BeginSlot(samples, sum); }
  void EndSlot() { sum_->EndSlot(); }
  void SetZero() { sum_->SetZero(); }
  // Enqueues a bucket's reduction, after all its gradients are enqueued. All members add their buckets in the same
  // order.
  Status AddBucket(std::size_t index, const Bucket& bucket);
  // Waits until the bucket is reduced and in the host's sum. Call it only when all members have added the bucket.
  Status Await(std::size_t index);
  void StepDone();

 private:
  struct OnTheWay {
    collective::DeviceGroup::Ticket ticket = 0;
    DeviceSum::Copy copy = 0;
  };

  Result<GroupDevice> Offer(std::span<float> sum);
  // Returns an empty text if the group was formed, else which member cannot join a device group, and why.
  Result<std::string> Connect(const Result<GroupDevice>& device, GroupRendezvous* members);
  Status AwaitReduced(collective::DeviceGroup::Ticket ticket, std::chrono::duration<double> patience);
  Status Note(Status status);
  void Say(const std::string& text);

  const DeviceReducerOptions options_;
  ModelDevice& device_;
  DeviceMembers of_;
  DeviceSum* sum_ = nullptr;  // owned by the model
  std::unique_ptr<collective::DeviceGroup> group_;
  std::vector<OnTheWay> on_the_way_;  // buckets in flight, by index
  std::string said_;
  collective::DeviceGroup::Ticket last_ticket_ = 0;
  DeviceTries tries_;
};

}  // namespace capstan::train
