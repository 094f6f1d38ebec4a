// GroupAdmission: admits the members of one group, by the keys that they have published.
//
// Kind:   as Admission.
// Why:    a member listens before it knows the others' keys, because they need its address. Until then a handshake
//         waits: if it were refused, the other member would take this one for a stranger. A handshake ends after three
//         seconds, and the member begins another one; so no answer is waited for much longer.
#pragma once

#include <chrono>
#include <map>
#include <utility>

#include "common/base/mailbox.h"
#include "common/keys/admission.h"

namespace capstan::collective {

class GroupAdmission final : public Admission {
 public:
  static constexpr std::chrono::seconds kWaitMax{5};

  explicit GroupAdmission(std::chrono::milliseconds wait_max = kWaitMax) : wait_max_(wait_max) {}

  // Call it once.
  void Admit(std::map<PublicKey, Principal> members) {
    state_.Change([&](State& state) {
      state.members = std::move(members);
      state.known = true;
    });
  }
  // Ends all waits; must precede the end of the transport.
  void Close() {
    state_.Change([](State& state) { state.known = true; });
  }

  std::optional<Principal> Find(const PublicKey& key, Time) const override {
    state_.AwaitUntil(std::chrono::steady_clock::now() + wait_max_, [](const State& state) { return state.known; });
    return state_.With([&](const State& state) -> std::optional<Principal> {
      const auto member = state.members.find(key);
      return member == state.members.end() ? std::nullopt : std::optional(member->second);
    });
  }
  void NoteRefused(const PublicKey&, const std::string&, Time) override {}  // by a member of an earlier group, too
  void Refresh(std::chrono::steady_clock::time_point) override {}
  std::uint64_t version() const override { return 0; }

 private:
  struct State {
    std::map<PublicKey, Principal> members;
    bool known = false;
  };
  const std::chrono::milliseconds wait_max_;
  mutable Guarded<State> state_;
};

}  // namespace capstan::collective
