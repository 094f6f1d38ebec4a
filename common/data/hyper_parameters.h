// CheckHyperParameters, FindDifference: what is wrong with a set of hyper-parameters, one of each group of tensors.
//
// Kind:   pure functions.
// Fails:  kInvalid, naming the group, the field and its value.
// Why:    the worker's side says it to its program at the call, and a shard believes no worker.
#pragma once

#include <capstan/hyper_parameters.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// `group_count`: of the catalog; 0: the job file owns them, and the set is empty.
Status CheckHyperParameters(const std::vector<HyperParameters>& groups, std::uint32_t group_count);

// The first field of the first group that differs between two sets of one length.
struct HyperDifference {
  std::uint32_t group = 0;  // from 1, as tensors name it
  std::string field;
  std::string kept, other;  // the values
};
HyperDifference FindDifference(const std::vector<HyperParameters>& kept, const std::vector<HyperParameters>& other);

// XXH3 over the bits of all fields.
std::uint64_t HashOf(const std::vector<HyperParameters>& groups);

}  // namespace capstan
