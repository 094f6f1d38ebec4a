// Target: a parser of bytes from a disk, a user or a peer, as a function of these bytes.
//
// Kind:   each *_fuzz.cc registers one before main begins; a program runs the targets linked into it.
// Fails:  Require and RequireReason end the process, so that a fuzzer keeps the input and ctest shows its name.
// Why:    one definition serves two programs: the fuzzer, and the replay of the corpus with any compiler.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan::fuzz {

struct Target {
  std::string_view name;  // name of its folder in corpus/
  void (*run)(std::string_view bytes);
};

class Registered {
 public:
  explicit Registered(Target target);
};

const std::vector<Target>& Targets();

// Ends the process unless `holds`. `what` names the violated property.
void Require(bool holds, std::string_view what);

// Requires that `status` is an error whose message is of bounded length and contains `subject`, the refused thing.
void RequireReason(const Status& status, std::string_view subject);

}  // namespace capstan::fuzz
