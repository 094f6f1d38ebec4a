#include "worker/train/device_meeting.h"

#include <utility>

namespace capstan::train {

namespace {

using Texts = std::vector<std::string>;

constexpr auto kTellMax = std::chrono::minutes(10);  // the coordinator knows sooner who is gone
constexpr char kHas = '+', kHasNot = '-';            // in front of what a member says
constexpr char kItself = '!';                        // that it failed before it met the others

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

// What the members say of the group that they have formed, or not; first who had a reason of its own.
std::string WhyNotFormed(const std::vector<GroupMember>& members, const Texts& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].starts_with(kItself)) return NameOf(members, rank) + ": " + texts[rank].substr(1);
  }
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) return NameOf(members, rank) + ": " + texts[rank];
  }
  return "";
}

class CountingRendezvous final : public collective::Rendezvous {
 public:
  explicit CountingRendezvous(collective::Rendezvous* rendezvous) : rendezvous_(*rendezvous) {}

  Result<Texts> Exchange(int rank, std::string bytes, collective::Deadline deadline) override {
    ++count_;
    return rendezvous_.Exchange(rank, std::move(bytes), deadline);
  }
  int count() const { return count_; }

 private:
  collective::Rendezvous& rendezvous_;
  int count_ = 0;
};

}  // namespace

Result<std::string> MeetOnDevices(const std::vector<GroupMember>& members, int rank, const Result<GroupDevice>& device,
                                  collective::Rendezvous* rendezvous, const FormOnDevices& form) {
  const auto tell = [&](std::string text) {
    return rendezvous->Exchange(rank, std::move(text), std::chrono::steady_clock::now() + kTellMax);
  };
  CAPSTAN_ASSIGN_OR_RETURN(const Texts devices, tell(TextOf(device)));
  if (std::string why_not = WhyNot(members, devices); !why_not.empty()) return why_not;
  CountingRendezvous counting(rendezvous);
  const Status formed = form(&counting);
  const bool has_met = counting.count() > 0;
  if (!has_met) CAPSTAN_RETURN_IF_ERROR(tell("").status());
  CAPSTAN_ASSIGN_OR_RETURN(const Texts ends, tell(has_met ? formed.message() : kItself + formed.message()));
  return WhyNotFormed(members, ends);
}

Status DeviceTries::Check() const {
  if (failures_ < kMax) return {};
  return Unsupported("its groups of devices ended " + std::to_string(failures_) +
                     " times before a step was done, the last time: " + last_.message());
}

}  // namespace capstan::train
