// Error: the answer to a message that the receiver does not accept.
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
  Step step;            // the sender's present step
  SequenceNumber last;  // for kInvalid because of a gap in sequence numbers: the last number applied
  BlockIndex block = 0;
  std::string message;
};

}  // namespace capstan
