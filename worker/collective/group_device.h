// GroupDevice: a model's device, as a member of a group of devices.
//
// Kind: a value.
#pragma once

#include <string>

namespace capstan::train {

struct GroupDevice {
  std::string id;       // unique per device
  std::string backend;  // name and version of the library that forms groups
};

}  // namespace capstan::train
