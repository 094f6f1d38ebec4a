#include "worker/machine/adder_choice.h"

#include <utility>

#include "common/wire/messages/group.h"
#include "worker/collective/text_rendezvous.h"
#include "worker/machine/host_adder.h"

namespace capstan::train {

namespace {

constexpr auto kConnectMax = std::chrono::seconds(15);

}  // namespace

Result<std::unique_ptr<BucketAdder>> AdderChoice::Choose(const MachineMembers& of, const AdderOptions& options,
                                                         collective::Group* group) {
  on_devices_ = false;
  if (options_.device == nullptr) {
    Say("this machine's gradients are added up by \"" + of.members[0].worker + "\", for " +
        std::to_string(of.members.size()) + " workers, over Gloo");
    return CreateHostAdder(options, group);
  }
  collective::TextRendezvous rendezvous(group);
  const auto name_of = [all = of.members](int rank) { return all[static_cast<std::size_t>(rank)].worker; };
  collective::DeviceGroupOptions devices{
      of.rank, static_cast<int>(of.members.size()), of.epoch, name_of, options_.libraries, of.look_up};
  // Ends the device group when a member is gone or has given up.
  devices.watch = [look_up = of.look_up, group]() -> Status {
    CAPSTAN_RETURN_IF_ERROR(look_up());
    return group->failure();
  };
  Result<std::unique_ptr<DeviceBucketAdder>> adder = options_.device->make(options);
  const auto form = [&](collective::Rendezvous* meeting) {
    return (*adder)->Form(devices, meeting, std::chrono::steady_clock::now() + kConnectMax);
  };
  const Result<GroupDevice> device =
      adder.ok() ? Result<GroupDevice>(options_.device->device) : Result<GroupDevice>(adder.status());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string why_not,
                           MeetOnDevices(of.members, of.rank, device, &tries_, &rendezvous, form));
  on_devices_ = why_not.empty();
  if (!on_devices_) {
    Say("this machine's gradients are added up over Gloo, because not all of its workers can on their devices: " +
        why_not);
    return CreateHostAdder(options, group);
  }
  Say("this machine's gradients are added up on the device of \"" + of.members[0].worker + "\", for " +
      std::to_string(of.members.size()) + " workers, by " + device->backend);
  return std::unique_ptr<BucketAdder>(std::move(*adder));
}

void AdderChoice::Say(const std::string& text) const {
  if (options_.on_notice) options_.on_notice(text);
}

}  // namespace capstan::train
