// MeetOnDevices, DeviceTries: find out whether all members of a group can add up gradients on their own devices.
//
// Fails:  MeetOnDevices fails as the rendezvous does.
// Why:    the job file has one setting for all workers, whose devices may differ. So the members of a group tell each
//         other what they have, and all decide alike.
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

// Counts consecutive device groups that failed before a step was done. Members that see a failure note it. If any
// member has noted one, all members add one to the count at their next meeting.
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
  const std::string& last() const { return last_; }  // the last failure's reason
  // Takes the count that the members have agreed on, and the reason that one of them gave.
  void Agree(int count, std::string last) {
    count_ = count;
    last_ = std::move(last);
    is_new_ = false;
  }

 private:
  int count_ = 0;
  bool is_new_ = false;  // one more failure, which other members may not know of
  std::string last_;
};

// All members call MeetOnDevices, each with its rank. Each reports its device. If all have the same backend, no two
// share a device, and groups have not failed too often, each calls `form` and reports its result. Returns an empty text
// if all have formed the group, else which member cannot, and why. `form` makes one exchange over the rendezvous, or
// none if it fails before; then MeetOnDevices makes it with an empty text, so that the other members do not wait.
using FormOnDevices = std::function<Status(collective::Rendezvous* rendezvous)>;
Result<std::string> MeetOnDevices(const std::vector<GroupMember>& members, int rank, const Result<GroupDevice>& device,
                                  DeviceTries* tries, collective::Rendezvous* rendezvous, const FormOnDevices& form);

}  // namespace capstan::train
