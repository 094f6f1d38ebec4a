// CheckName, NameOfProcess: names of workers, readers and machines.
//
// Kind:   pure functions.
// Limits: kMemberNameBytesMax.
// Fails:  kInvalid, with the name and the characters that it may have.
// Why:    names go into logs, status pages, labels of metrics and paths, where nothing needs to be escaped then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kMemberNameBytesMax = 64;

// Returns ok if the name has 1 to kMemberNameBytesMax characters, all of them letters, digits, '.', '_' or '-'. `what`:
// such as "a worker's name".
Status CheckName(const std::string& what, std::string_view name);

// Makes a name of a host's name and the number of a process there. Other characters become '-'. A host's long name is
// cut, and a hash of it is added, because such names often differ at the end only.
std::string NameOfProcess(std::string_view host, std::int64_t process);

}  // namespace capstan
