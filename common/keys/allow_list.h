// AllowList: which keys may take part in a job, and as what.
//
// Kind:   a value; immutable once made.
// Limits: kAllowedKeysMax keys.
// Fails:  kInvalid: a text that is no allow list, with the place of what is wrong.
//
// The text is TOML, a section for each key:
//   [worker-1]                              # any name; messages show it
//   key = "64 hexadecimal digits"
//   role = "worker"                         # or coordinator, server, reader, admin
//   name = "worker-1"                       # the only name under which it may join; a server's: its number; may be
//   left out expires = "2027-01-31T12:00:00Z"        # may be left out
//   sessions = 8                            # the most workers that may take part with it at once; may be left out
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/keys/key_pair.h"
#include "common/keys/principal.h"

namespace capstan {

inline constexpr std::size_t kAllowedKeysMax = 10'000;

// Whether a key of a server may have this name: a number without zeros in front, or none.
bool IsServerNumber(std::string_view name);

class AllowList {
 public:
  using Time = std::chrono::sys_seconds;

  static Result<AllowList> Parse(std::string_view text, std::string_view file_name);

  // Returns what the key may be at this time; nothing if it may not take part.
  std::optional<Principal> Find(const PublicKey& key, Time now) const;
  // Returns why it may not: a part of a sentence about the key.
  std::string WhyNot(const PublicKey& key, Time now) const;
  std::size_t size() const { return keys_.size(); }
  // Returns the key in the section; nothing if there is no such section.
  std::optional<PublicKey> KeyIn(std::string_view section) const;
  std::vector<PublicKey> KeysOf(Role role) const;

 private:
  struct Entry {
    std::string label;  // its section
    Principal principal;
    std::optional<Time> expires;
  };
  // Tells workers' keys without a name which names belong to others.
  void ReserveNames();
  std::map<PublicKey, Entry> keys_;
};

}  // namespace capstan
