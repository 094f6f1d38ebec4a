#include "worker/collective/device_meeting.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "common/wire/messages/group.h"

namespace capstan::train {

namespace {

using Texts = std::vector<std::string>;

constexpr auto kTellMax = std::chrono::minutes(10);  // long, because a lost member is detected sooner by other means
constexpr char kItself = '!';  // prefix of a member's text if it failed before its exchange in `form`

// A member's report about itself; one line of text for each field.
struct DeviceOffer {
  std::string why_not;  // why it has no device; empty: it has one
  GroupDevice device;
  int failures = 0;
  bool is_new_failure = false;
  std::string last_failure;

  std::string Write() const {
    std::string text;
    for (const std::string& line : {why_not, device.id, device.backend, std::to_string(failures),
                                    std::string(is_new_failure ? "1" : ""), last_failure}) {
      std::string one = line;
      std::replace(one.begin(), one.end(), '\n', ' ');
      text += one + '\n';
    }
    return text;
  }
  static DeviceOffer Read(const std::string& text) {
    std::istringstream lines(text);
    DeviceOffer offer;
    std::string failures, is_new;
    for (std::string* line : {&offer.why_not, &offer.device.id, &offer.device.backend, &failures, &is_new}) {
      if (!std::getline(lines, *line)) offer.why_not = "what it says of its device is not understood";
    }
    std::getline(lines, offer.last_failure);
    std::from_chars(failures.data(), failures.data() + failures.size(), offer.failures);
    offer.is_new_failure = !is_new.empty();
    return offer;
  }
};

DeviceOffer OfferOf(const Result<GroupDevice>& device, const DeviceTries& tries) {
  DeviceOffer offer{{}, {}, tries.count(), tries.is_new(), tries.last()};
  if (device.ok()) {
    offer.device = *device;
  } else {
    offer.why_not = device.status().message();
  }
  return offer;
}

std::string NameOf(const std::vector<GroupMember>& members, std::size_t rank) {
  return "\"" + members[rank].worker + "\"";
}

// Returns why not to try devices again, or an empty text. All members have the same offers, so all set the same count.
std::string AgreeOnTries(const std::vector<DeviceOffer>& offers, DeviceTries* tries) {
  std::size_t teller = 0;  // rank that reports the newest failure
  int count = 0;
  bool is_new = false;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const bool is_newer = offers[rank].is_new_failure && !is_new;
    if (is_newer || (!is_new && offers[rank].failures > offers[teller].failures)) teller = rank;
    count = std::max(count, offers[rank].failures);
    is_new = is_new || offers[rank].is_new_failure;
  }
  count = std::min(count + (is_new ? 1 : 0), DeviceTries::kMax);
  tries->Agree(count, offers[teller].last_failure);
  if (count < DeviceTries::kMax) return "";
  return "their groups ended " + std::to_string(count) +
         " times before a step was done, the last time: " + tries->last();
}

// Returns why the members cannot use their devices together, or an empty text if they can.
std::string WhyNot(const std::vector<GroupMember>& members, const std::vector<DeviceOffer>& offers) {
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank].why_not.empty()) return NameOf(members, rank) + ": " + offers[rank].why_not;
  }
  const std::string& backend = offers[0].device.backend;
  for (std::size_t rank = 1; rank < offers.size(); ++rank) {
    const GroupDevice& device = offers[rank].device;
    if (device.backend != backend) {
      return NameOf(members, rank) + " has " + device.backend + ", " + NameOf(members, 0) + " has " + backend +
             ": install the same on all machines";
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (offers[other].device.id == device.id) {
        return NameOf(members, other) + " and " + NameOf(members, rank) +
               " compute on one device, which NCCL refuses: start no more workers on a machine than it has GPUs";
      }
    }
  }
  return "";
}

// Returns why the group was not formed; empty: it was. If a member failed before its exchange in `form`, that one is
// named, because the others may have failed only as a result.
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
                                  DeviceTries* tries, collective::Rendezvous* rendezvous, const FormOnDevices& form) {
  const auto tell = [&](std::string text) {
    return rendezvous->Exchange(rank, std::move(text), std::chrono::steady_clock::now() + kTellMax);
  };
  CAPSTAN_ASSIGN_OR_RETURN(const Texts texts, tell(OfferOf(device, *tries).Write()));
  std::vector<DeviceOffer> offers;
  for (const std::string& text : texts) offers.push_back(DeviceOffer::Read(text));
  const std::string too_often = AgreeOnTries(offers, tries);
  if (std::string why_not = WhyNot(members, offers); !why_not.empty()) return why_not;
  if (!too_often.empty()) return too_often;
  CountingRendezvous counting(rendezvous);
  const Status formed = form(&counting);
  const bool has_met = counting.count() > 0;
  if (!has_met) CAPSTAN_RETURN_IF_ERROR(tell("").status());
  CAPSTAN_ASSIGN_OR_RETURN(const Texts ends, tell(has_met ? formed.message() : kItself + formed.message()));
  return WhyNotFormed(members, ends);
}

}  // namespace capstan::train
