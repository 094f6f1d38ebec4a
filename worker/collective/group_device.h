// GroupDevice: what a model computes on, as a member of a group of devices.
//
// Kind: a value.
#pragma once

#include <string>

namespace capstan::train {

struct GroupDevice {
  std::string id;       // no two devices have one
  std::string backend;  // which forms groups: its name and version
};

}  // namespace capstan::train
