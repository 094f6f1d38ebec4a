#include "common/keys/allow_list.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "common/config/toml_document.h"
#include "common/keys/role_name.h"

namespace capstan {
namespace {

// Returns the message without the line of the file below it: somebody may have put a secret there.
Status WithoutLine(const std::string& message) { return Invalid(message.substr(0, message.find('\n'))); }

// Reads "2027-01-31" or "2027-01-31T12:00:00Z".
std::optional<AllowList::Time> ParseTime(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, end = 0;
  const bool is_day = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3;
  if (!is_day) return std::nullopt;
  if (static_cast<std::size_t>(end) != text.size()) {
    end = 0;
    const int read =
        std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &end);
    if (read != 6 || static_cast<std::size_t>(end) != text.size()) return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

constexpr std::string_view kSessions = "sessions";
constexpr std::int64_t kSessionsMax = 4096;

// The texts of a section, by key.
using Texts = std::map<std::string, const TomlEntry*>;

const std::string& TextOf(const TomlEntry& entry) { return std::get<std::string>(entry.value.data); }

// Fails for keys of other names and values that are no texts.
Result<Texts> TextsOf(const TomlDocument& document, const TomlSection& section) {
  static constexpr std::array<std::string_view, 5> kKnown = {"key", "role", "name", "expires", kSessions};
  Texts texts;
  for (const TomlEntry& entry : section.entries) {
    if (std::find(kKnown.begin(), kKnown.end(), entry.key) == kKnown.end()) {
      return WithoutLine(document.Message(
          entry.place, "unknown key \"" + entry.key + "\"; a section has key, role, name, expires and sessions"));
    }
    if (entry.key == kSessions) continue;
    if (!std::holds_alternative<std::string>(entry.value.data)) {
      return WithoutLine(document.Message(entry.value.place, entry.key + " takes a text in quotes"));
    }
    texts[entry.key] = &entry;
  }
  for (const char* needed : {"key", "role"}) {
    if (!texts.contains(needed))
      return WithoutLine(document.Message(section.place, std::string(needed) + " is missing"));
  }
  return texts;
}

// Returns how many sessions the owners of a section's key may have; 0: any number.
Result<std::uint32_t> SessionsOf(const TomlDocument& document, const TomlSection& section, Role role) {
  const TomlEntry* const entry = document.Find(section.name, kSessions);
  if (entry == nullptr) return std::uint32_t{0};
  const auto* const number = std::get_if<std::int64_t>(&entry->value.data);
  if (role == Role::kWorker && number != nullptr && *number >= 1 && *number <= kSessionsMax) {
    return static_cast<std::uint32_t>(*number);
  }
  return WithoutLine(
      document.Message(entry->value.place,
                       "sessions is of a worker's key, and takes a number from 1 to " + std::to_string(kSessionsMax)));
}

}  // namespace

bool IsServerNumber(std::string_view name) {
  if (name.size() > 1 && name.starts_with('0')) return false;
  return name.size() <= 9 && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<AllowList> AllowList::Parse(std::string_view text, std::string_view file_name) {
  const Result<TomlDocument> parsed = TomlDocument::Parse(text, file_name, {});
  if (!parsed.ok()) return WithoutLine(parsed.status().message());
  const TomlDocument& document = *parsed;
  if (document.sections().empty() && document.loose().empty())
    return Invalid(std::string(file_name) + " allows no key");
  if (!document.loose().empty()) {
    return WithoutLine(document.Message(document.loose()[0].place, "each key has a section of its own, as [worker-1]"));
  }
  if (document.sections().size() > kAllowedKeysMax) {
    return Invalid(std::string(file_name) + " has " + std::to_string(document.sections().size()) + " keys; at most " +
                   std::to_string(kAllowedKeysMax) + " are possible");
  }
  AllowList list;
  for (const TomlSection& section : document.sections()) {
    CAPSTAN_ASSIGN_OR_RETURN(const Texts texts, TextsOf(document, section));
    const TomlEntry &key_entry = *texts.at("key"), &role_entry = *texts.at("role");
    const Result<PublicKey> key = ParsePublicKey("key", TextOf(key_entry));
    if (!key.ok()) return WithoutLine(document.Message(key_entry.value.place, key.status().message()));
    const std::optional<Role> role = RoleOf(TextOf(role_entry));
    if (!role) {
      return Invalid(
          document.Message(role_entry.value.place, "role takes coordinator, server, worker, reader or admin"));
    }
    Entry entry{section.name, {*role, "", *key}, {}};
    if (const auto name = texts.find("name"); name != texts.end()) entry.principal.name = TextOf(*name->second);
    if (*role == Role::kServer && !IsServerNumber(entry.principal.name)) {
      return WithoutLine(document.Message(texts.at("name")->value.place,
                                          "a server's name is its number, as name = \"0\" for --index 0"));
    }
    if (const auto expires = texts.find("expires"); expires != texts.end()) {
      entry.expires = ParseTime(TextOf(*expires->second));
      if (!entry.expires) {
        return WithoutLine(document.Message(expires->second->value.place,
                                            "expires takes a time as 2027-01-31T12:00:00Z, or a day as 2027-01-31"));
      }
    }
    CAPSTAN_ASSIGN_OR_RETURN(entry.principal.sessions_max, SessionsOf(document, section, *role));
    const auto [place, added] = list.keys_.emplace(*key, std::move(entry));
    if (!added) {
      return WithoutLine(document.Message(key_entry.value.place, "[" + place->second.label + "] has this key already"));
    }
  }
  list.ReserveNames();
  return list;
}

void AllowList::ReserveNames() {
  std::set<std::string> names;
  for (const auto& [key, entry] : keys_) {
    if (entry.principal.role == Role::kWorker && !entry.principal.name.empty()) names.insert(entry.principal.name);
  }
  if (names.empty()) return;
  const auto reserved = std::make_shared<const std::set<std::string>>(std::move(names));
  for (auto& [key, entry] : keys_) {
    if (entry.principal.role == Role::kWorker && entry.principal.name.empty())
      entry.principal.reserved_names = reserved;
  }
}

std::optional<Principal> AllowList::Find(const PublicKey& key, Time now) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || (found->second.expires && now >= *found->second.expires)) return std::nullopt;
  return found->second.principal;
}

std::optional<PublicKey> AllowList::KeyIn(std::string_view section) const {
  for (const auto& [key, entry] : keys_) {
    if (entry.label == section) return key;
  }
  return std::nullopt;
}

std::vector<PublicKey> AllowList::KeysOf(Role role) const {
  std::vector<PublicKey> keys;
  for (const auto& [key, entry] : keys_) {
    if (entry.principal.role == role) keys.push_back(key);
  }
  return keys;
}

std::string AllowList::WhyNot(const PublicKey& key, Time now) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return "is not in the allow list";
  if (found->second.expires && now >= *found->second.expires) return "of [" + found->second.label + "] has expired";
  return "is allowed";
}

}  // namespace capstan
