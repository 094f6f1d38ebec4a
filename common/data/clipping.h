// Clipping: how the training program has a step's gradient clipped.
//
// Kind:   a value.
// Limits: each is 0 or a normal fp32 number above 0; at most one of the two is set.
// Why:    a slot brings it with its report, because a program may know it only after its backward pass. The verdict on
//         the step, which redoes the update with a clip factor or a limit, is the first to need it.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {

struct Clipping {
  double norm = 0.0;   // largest norm of the whole averaged gradient; 0: the job file's optimizer.clip_norm
  double value = 0.0;  // largest magnitude of an element of the averaged gradient; 0: no limit
  bool operator==(const Clipping&) const = default;
};

// Returns a text such as "norm 1.5" or "none".
std::string TextOf(const Clipping& clipping);

// Fails with kInvalid, and says which limit is wrong.
Status CheckClipping(const Clipping& clipping);

}  // namespace capstan
