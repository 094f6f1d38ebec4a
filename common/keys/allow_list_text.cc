#include "common/keys/allow_list_text.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/base/file_text.h"
#include "common/config/toml_document.h"
#include "common/keys/role_name.h"

namespace capstan {
namespace {

// Whether a line of a file has neither a key nor a section.
bool IsComment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r\n");
  return first == line.npos || line[first] == '#';
}

}  // namespace

Result<std::string> ReadAllowListText(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    const bool others_write = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (others_write || (facts.st_uid != geteuid() && facts.st_uid != 0)) {
      return Invalid("other users may change the allow list " + path + "; run: chmod 600 " + path +
                     (others_write ? "" : ", as its owner who starts this process"));
    }
  }
  Result<std::string> text = ReadFileText(path, kTomlBytesMax + 1);
  if (text.ok()) return text;
  return Status(text.status().code(),
                "cannot read the allow list " + path + ": " + text.status().message() + "; capstan keygen makes one");
}

std::string AllowListSection(std::string_view title, const PublicKey& key, const Principal& principal) {
  const bool quote = title.find('.') != title.npos;  // TOML takes a dot for the border of two names
  std::string text = quote ? "\n[\"" : "\n[";
  text += title;
  text += quote ? "\"]\nkey = \"" : "]\nkey = \"";
  text += TextOf(key);
  text += "\"\nrole = \"";
  text += NameOf(principal.role);
  text += "\"\n";
  if (!principal.name.empty()) text += "name = \"" + principal.name + "\"\n";
  return text;
}

Result<std::string> WithoutSection(std::string_view text, std::string_view title, std::string_view file_name) {
  CAPSTAN_ASSIGN_OR_RETURN(const TomlDocument document, TomlDocument::Parse(text, file_name, {}));
  const TomlSection* const section = document.FindSection(title);
  if (section == nullptr) return Invalid(std::string(file_name) + " has no section [" + std::string(title) + "]");
  const std::uint32_t begin = section->place.line;
  std::uint32_t end = std::numeric_limits<std::uint32_t>::max();
  for (const TomlSection& other : document.sections()) {
    if (other.place.line > begin) end = std::min(end, other.place.line);
  }
  std::string kept;
  std::uint32_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, next - at);
    if (number < begin || number >= end || IsComment(line)) kept += line;
    at = next;
  }
  return kept;
}

}  // namespace capstan
