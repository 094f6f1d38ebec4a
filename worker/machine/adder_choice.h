// AdderChoice: chooses where a machine's workers add up their gradients: on their devices, if the job file asks for it
// and all can, else on the CPU.
//
// Kind:   owned by the group's thread.
// Fails:  Choose fails as the group does.
// Why:    the sums have the same bits in both cases, so a group that cannot use its devices adds on the CPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/device_meeting.h"
#include "worker/collective/group.h"
#include "worker/machine/adder_device.h"
#include "worker/machine/bucket_adder.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::train {

struct AdderChoiceOptions {
  const AdderDevice* device = nullptr;  // null: the job file does not ask for devices
  kernels::LibrarySearch libraries = {};
  std::function<void(const std::string&)> on_notice = nullptr;
};

// The members of a machine's group in one epoch.
struct MachineMembers {
  std::vector<GroupMember> members;  // by rank
  int rank = 0;
  std::uint64_t epoch = 0;
  std::function<Status()> look_up;  // returns an error when the group is over; callable from any thread
};

class AdderChoice {
 public:
  explicit AdderChoice(AdderChoiceOptions options) : options_(std::move(options)) {}

  // Chooses the adder together with the other members, over `group`: all must call it. `group` outlives the adder.
  Result<std::unique_ptr<BucketAdder>> Choose(const MachineMembers& of, const AdderOptions& options,
                                              collective::Group* group);
  bool on_devices() const { return on_devices_; }
  // Call these when the adder that Choose returned last has finished a step, or has failed.
  void StepDone() {
    if (on_devices_) tries_.StepDone();
  }
  void Failed(const Status& why) {
    if (on_devices_) tries_.Failed(why);
  }

 private:
  void Say(const std::string& text) const;

  const AdderChoiceOptions options_;
  bool on_devices_ = false;
  DeviceTries tries_;
};

}  // namespace capstan::train
