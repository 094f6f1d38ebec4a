// GroupMember: one of the workers that reduce gradients among themselves.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan {

// One of the workers that reduce gradients among themselves, in a generation or on a machine.
struct GroupMember {
  SessionId session;
  std::string worker;
  std::string address;  // opaque: how the others reach it; all are empty until all are known
};

}  // namespace capstan
