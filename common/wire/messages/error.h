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
  Generation generation;    // of a shard: its generation and incarnation, told only to a sender that knows them, or
  Incarnation incarnation;  // whose session is known there; otherwise 0
  Step step;                // the sender's present step
  SequenceNumber last;      // for kInvalid because of a gap in sequence numbers: the last number applied
  BlockIndex block = 0;
  std::string message;
};

}  // namespace capstan
