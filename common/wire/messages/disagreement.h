// Disagreement: a shard reports to the coordinator that two sessions contradict each other about one step.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan {

struct Disagreement {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
  SessionId first;   // the session whose word counts, because it came first; 0: several sessions together
  SessionId second;  // the session that says something else; the same as `first` if it contradicts itself
  std::string what;  // what they disagree about, for people
};

}  // namespace capstan
