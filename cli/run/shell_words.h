// ShellWords: words as one types them into a shell.
//
// Kind:   pure function.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

// Quotes words that a shell would change.
std::string ShellWords(const std::vector<std::string>& words);

}  // namespace capstan::cli
