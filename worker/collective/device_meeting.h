// MeetOnDevices, DeviceTries: whether all members of a group can add up on the devices that they compute on.
//
// Fails:  MeetOnDevices as the rendezvous.
// Why:    one word in the job file: who has what is found out by each group anew, so that all of them do the same.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "worker/collective/group_device.h"
#include "worker/collective/rendezvous.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::train {

// Counts the groups on devices that have failed, in a row and before a step was done. Each failure is noted by the
// members that see it first; in their next meeting all count it.
class DeviceTries {
 public:
  static constexpr int kMax = 3;

  void Failed(const Status& why) {
    is_new_ = true;
    last_ = why.message();
  }
  void StepDone() { *this = {}; }
  int count() const { return count_; }
  bool is_new() const { return is_new_; }
  const std::string& last() const { return last_; }  // reason
  // What the members count, and the reason of one of them.
  void Agree(int count, std::string last) {
    count_ = count;
    last_ = std::move(last);
    is_new_ = false;
  }

 private:
  int count_ = 0;
  bool is_new_ = false;  // one more, which the others may not know of
  std::string last_;
};

// All members call it, by rank. Each says what it has; if all have the same backend, no two the same device, and groups
// have not failed too often, each calls `form`, and says how that went. Empty when all have formed the group, else who
// cannot, and why. `form` makes one exchange, or none where it fails before: then the others get an empty text from this
// rank.
using FormOnDevices = std::function<Status(collective::Rendezvous* rendezvous)>;
Result<std::string> MeetOnDevices(const std::vector<GroupMember>& members, int rank, const Result<GroupDevice>& device,
                                  DeviceTries* tries, collective::Rendezvous* rendezvous, const FormOnDevices& form);

}  // namespace capstan::train
