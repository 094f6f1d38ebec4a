// KeyOwners: who the owners of keys are that have sent messages, remembered for a second.
//
// Kind:   owned by its transport's thread.
// Limits: the keys of one allow list: the gatekeeper lets no others connect.
// Why:    each message is looked up, so that a key can be revoked while its connection is open; the allow list is
//         behind a lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/keys/admission.h"

namespace capstan {

class KeyOwners {
 public:
  explicit KeyOwners(std::shared_ptr<const Admission> admission) : admission_(std::move(admission)) {}

  // `key`: a public key as text. Returns nothing if the key may not take part. There must be an admission.
  std::optional<Principal> Find(std::string_view key) {
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t version = admission_->version();
    if (version != version_ || now >= until_) {
      known_.clear();
      version_ = version;
      until_ = now + std::chrono::seconds(1);  // by then a key may have expired
    }
    auto owner = known_.find(key);
    if (owner == known_.end()) owner = known_.emplace(key, LookUp(key)).first;
    return owner->second;
  }

 private:
  std::optional<Principal> LookUp(std::string_view key) const {
    const Result<PublicKey> parsed = ParsePublicKey("the user id", key);
    if (!parsed.ok()) return std::nullopt;
    return admission_->Find(*parsed, std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  }

  const std::shared_ptr<const Admission> admission_;
  std::map<std::string, std::optional<Principal>, std::less<>> known_;
  std::uint64_t version_ = 0;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace capstan
