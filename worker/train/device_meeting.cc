#include "worker/train/device_meeting.h"

#include <utility>

namespace capstan::train {

namespace {

using Texts = std::vector<std::string>;

constexpr auto kTellMax = std::chrono::minutes(10);  // the coordinator knows sooner who is gone
constexpr double kSlowestMiBPerSecond = 10;
constexpr char kHas = '+', kHasNot = '-';  // in front of what a member says

std::string TextOf(const Result<GroupDevice>& device) {
  return device.ok() ? kHas + device->id + " " + device->library : kHasNot + device.status().message();
}

std::string NameOf(const std::vector<GroupMember>& members, std::size_t rank) {
  return "\"" + members[rank].worker + "\"";
}

// Empty where all can.
std::string WhyNot(const std::vector<GroupMember>& members, const Texts& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty() || texts[rank].front() != kHas) {
      return NameOf(members, rank) + ": " + texts[rank].substr(texts[rank].empty() ? 0 : 1);
    }
  }
  const auto device_of = [&](std::size_t rank) { return texts[rank].substr(0, texts[rank].find(' ')); };
  const auto library_of = [&](std::size_t rank) { return texts[rank].substr(texts[rank].find(' ') + 1); };
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (library_of(rank) != library_of(0)) {
      return NameOf(members, rank) + " has " + library_of(rank) + ", " + NameOf(members, 0) + " has " + library_of(0) +
             ": install the same on all machines";
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (device_of(other) == device_of(rank)) {
        return NameOf(members, other) + " and " + NameOf(members, rank) +
               " compute on one device, which NCCL refuses: start no more workers on a machine than it has GPUs";
      }
    }
  }
  return "";
}

// What the members say of the group that they have formed, or not.
std::string WhyNotFormed(const std::vector<GroupMember>& members, const Texts& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) return NameOf(members, rank) + ": " + texts[rank];
  }
  return "";
}

}  // namespace

Result<std::string> MeetOnDevices(const std::vector<GroupMember>& members, int rank, const Result<GroupDevice>& device,
                                  collective::Rendezvous* rendezvous, const std::function<Status()>& form) {
  const auto tell = [&](std::string text) {
    return rendezvous->Exchange(rank, std::move(text), std::chrono::steady_clock::now() + kTellMax);
  };
  CAPSTAN_ASSIGN_OR_RETURN(const Texts devices, tell(TextOf(device)));
  if (std::string why_not = WhyNot(members, devices); !why_not.empty()) return why_not;
  const Status formed = form();
  CAPSTAN_ASSIGN_OR_RETURN(const Texts ends, tell(formed.message()));
  return WhyNotFormed(members, ends);
}

std::chrono::milliseconds DevicePatience(const JobConfig& config) {
  const double seconds = config.limits.lease + config.allreduce.bucket_mib / kSlowestMiBPerSecond;
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

Status DeviceTries::Check() const {
  if (failures_ < kMax) return {};
  return Unsupported("its groups of devices ended " + std::to_string(failures_) +
                     " times before a step was done, the last time: " + last_.message());
}

}  // namespace capstan::train
