// CheckName, NameFrom: names of workers, readers and machines.
//
// Kind:   pure functions.
// Limits: kNameBytesMax: a host name of up to 64 characters and a process's number fit.
// Fails:  kInvalid, with the name and the characters that it may have.
// Why:    names go into logs, status pages, labels of metrics and paths, where nothing needs to be escaped then.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kNameBytesMax = 128;

// Returns ok if the name has 1 to kNameBytesMax characters, all of them letters, digits, '.', '_' or '-'. `what`: such
// as "a worker's name".
Status CheckName(const std::string& what, std::string_view name);

// Makes a name of a text such as a host's name: other characters become '-', and what is too long is cut.
std::string NameFrom(std::string_view text);

}  // namespace capstan
