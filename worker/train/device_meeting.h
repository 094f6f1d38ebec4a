// MeetOnDevices, DeviceTries: whether all members of a group can add up on the devices that they compute on.
//
// Fails:  MeetOnDevices as the rendezvous.
// Why:    one word in the job file: who has what is found out by each group anew, so that all of them do the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/messages.h"
#include "worker/collective/rendezvous.h"
#include "worker/train/group_device.h"

namespace capstan::train {

// All members call it, by rank. Each says what it has; if all have the same library, and no two the same device, each
// calls `form`, and says how that went. Empty when all have formed the group, else who cannot, and why. `form` makes one
// exchange, or none where it fails before: then the others get an empty text from this rank.
using FormOnDevices = std::function<Status(collective::Rendezvous* rendezvous)>;
Result<std::string> MeetOnDevices(const std::vector<GroupMember>& members, int rank, const Result<GroupDevice>& device,
                                  collective::Rendezvous* rendezvous, const FormOnDevices& form);

// Counts a worker's groups on devices that have failed.
class DeviceTries {
 public:
  static constexpr int kMax = 3;  // in a row, before a step was done

  void Failed(const Status& why) {
    ++failures_;
    last_ = why;
  }
  void StepDone() { failures_ = 0; }
  // kUnsupported: it is not to be tried again.
  Status Check() const;

 private:
  int failures_ = 0;
  Status last_;
};

}  // namespace capstan::train
