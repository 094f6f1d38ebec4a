// ManPage: a program's page for man(1), in the language of man(7).
//
// Kind:   pure function.
#pragma once

#include <cstdint>
#include <string>

#include "cli/reference/command_facts.h"

namespace capstan::cli {

struct ManPageFacts {
  std::string version;
  std::int64_t time = 0;  // seconds since 1970, which the page's date is made from
  std::string see_also;   // other pages, such as "capstan\-server"
};

std::string ManPage(const CommandFacts& program, const ManPageFacts& facts);

}  // namespace capstan::cli
