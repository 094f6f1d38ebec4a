// ShardAddress: a shard's address and incarnation.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan {

struct ShardAddress {
  ShardIndex shard = 0;
  Incarnation incarnation;
  std::string endpoint;
  bool operator==(const ShardAddress&) const = default;
};

}  // namespace capstan
