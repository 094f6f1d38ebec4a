// GroupMember: one of the workers that reduce gradients among themselves.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan {

// A group is the workers of a generation (allreduce) or of a machine (sync).
struct GroupMember {
  SessionId session;
  std::string worker;
  std::string address;  // opaque address for the other members; all are empty until all are known
};

}  // namespace capstan
