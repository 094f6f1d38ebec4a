// ShellWords: words as they are typed into a shell.
//
// Kind:   pure function.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

// Words that a shell would change stand in quotes.
std::string ShellWords(const std::vector<std::string>& words);

}  // namespace capstan::cli
