// AdderChoice: who adds up for a machine's workers: their devices, where all of them can and are to, else the hosts.
//
// Kind:   owned by the group's thread.
// Fails:  Choose as the group.
// Why:    what is added up, and the bits, are the same on both ways, so that no group is refused for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/device_meeting.h"
#include "worker/collective/group.h"
#include "worker/machine/bucket_adder.h"
#include "worker/machine/local_device.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::train {

struct AdderChoiceOptions {
  const LocalDevice* device = nullptr;  // null: the job file asks for none
  kernels::LibrarySearch libraries = {};
  std::function<void(const std::string&)> on_notice = nullptr;
};

// A machine's, of one epoch.
struct LocalMembers {
  std::vector<GroupMember> members;  // by rank
  int rank = 0;
  std::uint64_t epoch = 0;
  std::function<Status()> look_up;  // not OK: it is over; from any thread
};

class AdderChoice {
 public:
  explicit AdderChoice(AdderChoiceOptions options) : options_(std::move(options)) {}

  // All members call it, over their group, which outlives what it makes.
  Result<std::unique_ptr<BucketAdder>> Choose(const LocalMembers& of, const AdderOptions& options,
                                              collective::Group* group);
  bool on_devices() const { return on_devices_; }
  // Of the adder that it has chosen last.
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
