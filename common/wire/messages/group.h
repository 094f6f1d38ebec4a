// GroupMember: one of the workers that reduce gradients among themselves.
//
// Kind:   values.
#pragma once

#include <string>

namespace capstan {

// A group consists of the workers of one generation (mode allreduce) or of one machine (mode sync).
struct GroupMember {
  std::string worker;
  std::string address;  // opaque address for the other members; all are empty until all are known
};

}  // namespace capstan
