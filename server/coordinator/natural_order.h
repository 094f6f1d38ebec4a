// ComesBefore: the order of names in which people count: "worker-2" before "worker-10".
//
// Kind:   pure function; a strict weak order in which two names are equal only when they are the same.
#pragma once

#include <string_view>

namespace capstan::server {

bool ComesBefore(std::string_view a, std::string_view b);

}  // namespace capstan::server
