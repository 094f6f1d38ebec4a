// Lists of runs in text files, one run per line: its seed, mode word and edition, and a note.
//
// Kind:   functions; two of them read and write files.
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

// Returns the mode word of a run for the lists, such as "sync", "async+durable" or "sync+local".
std::string ModeWord(const RunName& name);
// Returns the command line of `sim` that repeats a run.
std::string Command(const RunName& name);

// Reads a list. Lines that begin with # are comments.
Result<std::vector<ListedRun>> ReadSeedList(const std::string& path);
// Writes a list. The comments at the head of an existing file stay.
Status WriteSeedList(const std::string& path, const std::vector<ListedRun>& runs);

}  // namespace capstan::sim
