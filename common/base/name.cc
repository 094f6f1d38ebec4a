#include "common/base/name.h"

#include <algorithm>

#include "common/base/utf8.h"

namespace capstan {
namespace {

bool IsOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

Status CheckName(const std::string& what, std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), IsOfName);
  if (plain && !name.empty() && name.size() <= kNameBytesMax) return {};
  return Invalid(what + " has 1 to " + std::to_string(kNameBytesMax) + " letters, digits, '.', '_' or '-', not \"" +
                 Shown(name) + "\"");
}

std::string NameFrom(std::string_view text) {
  std::string name(text.substr(0, kNameBytesMax));
  std::replace_if(name.begin(), name.end(), [](char c) { return !IsOfName(c); }, '-');
  return name;
}

}  // namespace capstan
