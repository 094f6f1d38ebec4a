#include "common/base/name.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "common/base/hash.h"
#include "common/base/utf8.h"

namespace capstan {
namespace {

bool IsOfMemberName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

std::string ShortHash(std::string_view text) {
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", static_cast<unsigned>(Hash64(std::as_bytes(std::span(text)))));
  return digits.data();
}

}  // namespace

Status CheckName(const std::string& what, std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), IsOfMemberName);
  if (plain && !name.empty() && name.size() <= kMemberNameBytesMax) return {};
  return Invalid(what + " has 1 to " + std::to_string(kMemberNameBytesMax) +
                 " letters, digits, '.', '_' or '-', not \"" + Excerpt(name) + "\"");
}

std::string NameOfProcess(std::string_view host, std::int64_t process) {
  std::string end = "-" + std::to_string(process);
  if (host.size() + end.size() > kMemberNameBytesMax) end = "-" + ShortHash(host) + end;
  std::string name(host.substr(0, kMemberNameBytesMax - end.size()));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !IsOfMemberName(c); }, '-');
  return name + end;
}

}  // namespace capstan
