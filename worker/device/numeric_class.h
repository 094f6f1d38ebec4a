// NumericClass, NumericFingerprint: describe what a gradient's bits depend on besides its inputs: the build, the kind
// of machine and the kernels chosen on it.
//
// Kind:   pure functions of the build and the machine.
// Why:    workers of one job are interchangeable only when they compute the same bits. The fingerprint is a hash of
//         results, so machines with the same fingerprint may differ in everything that does not affect bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/config/job/device.h"
#include "worker/device/job_model.h"

namespace capstan::train {

// Returns a text such as "capstan 0.1.0, g++ 12.2.0, fp32, cpu", which is shown and compared. `where`: the device and
// libraries, as far as they affect bits.
std::string NumericClass(Precision precision, const std::string& where);

// Returns "cpu". If this CPU has special instructions for bf16 matrix products, whose bits differ, adds their name.
std::string CpuName(Precision precision);

// Returns the XXH3 of the gradients and losses of small fixed models on fixed data, one model of each kind. `make`
// makes these models.
Result<std::uint64_t> NumericFingerprint(Precision precision, const ModelMaker& make);

}  // namespace capstan::train
