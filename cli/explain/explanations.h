// Explanations: what each code of an error, and each exit code, means, what usually causes it, and what to do.
//
// Kind:   a table, and pure functions. docs/ has no second copy of these texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cli {

struct Explanation {
  std::string id;                  // stable, such as "stale" or "exit-2"
  std::vector<std::string> names;  // as C, C++ and Python call it; empty for exit codes
  std::string meaning, causes, advice;
};

// Returns all explanations: the codes in the order of their numbers, then exit codes.
std::vector<Explanation> AllExplanations();

// Finds what a user means: an id, one of the names, an exit code as a shell shows it ("2", "137"), or a message that
// begins with a code's name ("invalid: ...").
std::optional<Explanation> FindExplanation(std::string_view text);

}  // namespace capstan::cli
