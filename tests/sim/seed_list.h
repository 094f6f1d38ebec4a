// Lists of seeds: runs by name, one per line of a text file: seed, mode, edition, and a note.
//
// Kind:   pure functions, and files.
// Fails:  kInvalid for a file that cannot be read or written, and for a line that names no run.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/sim/judge.h"

namespace capstan::sim {

struct ListedRun {
  RunName name;
  std::string note;  // why a seed failed (failed_seeds.txt), or the mutant that it catches (caught_seeds.txt)
};

// A word such as "sync", "async+durable" or "sync+local", as in the lists.
std::string ModeWord(const RunName& name);
// The options of `sim` that repeat a run.
std::string Command(const RunName& name);

// Lines that begin with # are comments.
Result<std::vector<ListedRun>> ReadSeedList(const std::string& path);
// Keeps the comments at the head of an existing file.
Status WriteSeedList(const std::string& path, const std::vector<ListedRun>& runs);

}  // namespace capstan::sim
