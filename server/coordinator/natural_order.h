// ComesBefore: orders names by the numbers in them: "worker-2" before "worker-10".
//
// Kind:   pure function; a strict weak order in which only identical names are equal.
#pragma once

#include <string_view>

namespace capstan::server {

bool ComesBefore(std::string_view a, std::string_view b);

}  // namespace capstan::server
