// The target reads an allow list. Either it is refused at a place, or each key that it names may take part until it
// expires, and no other key may.
#include "common/keys/allow_list.h"

#include <chrono>

#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr AllowList::Time kNow = std::chrono::sys_days{std::chrono::year{2026} / 1 / 1};

void RunAllowList(std::string_view text) {
  const Result<AllowList> list = AllowList::Parse(text, "allow.toml");
  if (!list.ok()) return RequireReason(list.status(), "allow.toml");
  Require(list->size() <= kAllowedKeysMax, "an allow list has a bounded number of keys");
  const PublicKey unknown;
  if (list->Find(unknown, kNow)) return;  // a list may name any key, this one, too
  Require(!list->WhyNot(unknown, kNow).empty(), "a key that may not take part is told why");
}

const Registered allow_list_target({"allow_list", RunAllowList});

}  // namespace
}  // namespace capstan::fuzz
