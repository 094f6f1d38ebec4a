// Error: what anybody answers to a message that it does not take.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

struct Error {
  Code code = Code::kInvalid;
  Generation generation;
  Incarnation incarnation;
  Step step;  // the sender's present step
  Step last;  // kInvalid for a gap: the last sequence number applied
  BlockIndex block = 0;
  std::string message;
};

}  // namespace capstan
