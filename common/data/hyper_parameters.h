// CheckHyperParameters, CheckNoMomentum, FindDifference: check and compare sets of hyper-parameters, one for each group
// of tensors.
//
// Kind:   pure functions.
// Fails:  kInvalid, naming the group, the field and its value.
// Why:    a worker checks in its program's call, and a shard checks again because it trusts no worker.
#pragma once

#include <capstan/hyper_parameters.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// Checks the sets of hyper-parameters in a push. `group_count`: that of the catalog; 0: the job file sets the
// hyper-parameters, and `groups` must be empty.
Status CheckHyperParameters(const std::vector<HyperParameters>& groups, std::uint32_t group_count);

// Checks the sets of a job of kind rmsprop whose job file has no momentum: no group may have one.
Status CheckNoMomentum(const std::vector<HyperParameters>& groups);

// The first field that differs between two lists of equal length; `group` is 0 if none does.
struct HyperDifference {
  std::uint32_t group = 0;  // from 1, as in TensorSpec::group
  std::string field;
  std::string known, other;  // the values
};
HyperDifference FindDifference(const std::vector<HyperParameters>& known, const std::vector<HyperParameters>& other);

// Computes a hash of the bits of all fields of all groups.
std::uint64_t HashOf(const std::vector<HyperParameters>& groups);

}  // namespace capstan
