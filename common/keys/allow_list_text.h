// AllowListText: the text of an allow list, with one key more or less.
//
// Kind:   functions; ReadAllowListText reads a file.
// Fails:  kInvalid: a list that other users may write, no such list, or no such section.
// Why:    people write comments into their lists, and a program that adds a key keeps them.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/keys/key_pair.h"
#include "common/keys/principal.h"

namespace capstan {

// Reads the file, if nobody but its owner (this process's user or the superuser) may write it.
Result<std::string> ReadAllowListText(const std::string& path);

// Returns an empty line and the section of a key, to be put at the end of a list. `title`: letters, digits, '.', '_' or
// '-'.
std::string AllowListSection(std::string_view title, const PublicKey& key, const Principal& principal);

// Returns the text without the section; comments and empty lines stay. `file_name` is for messages.
Result<std::string> WithoutSection(std::string_view text, std::string_view title, std::string_view file_name);

}  // namespace capstan
