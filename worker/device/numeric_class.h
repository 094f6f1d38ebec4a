// What the bits of a gradient depend on, besides its inputs: the build, the kind of machine, and the kernels that are
// chosen on it.
//
// Kind:   pure functions of the build and the machine.
// Why:    workers of one job are interchangeable only when they compute the same bits (docs/design/design.md). The
//         fingerprint is of results, not of names: two machines that agree on it may differ in whatever does not
//         matter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/config/job/device.h"
#include "worker/device/job_model.h"

namespace capstan::train {

// "capstan 0.1.0, g++ 12.2.0, fp32, cpu"; for people, and compared. `where`: what computes, as far as it has bits of
// its own.
std::string NumericClass(Precision precision, const std::string& where);

// "cpu", with the name of the products of bf16 where they have bits of their own.
std::string CpuName(Precision precision);

// XXH3 of the gradients of fixed small models on fixed data: every kernel of the job's path takes part. `make` makes
// the models that are probed; they are the host's to make, and cannot fail but where the device does.
Result<std::uint64_t> NumericFingerprint(Precision precision, const ModelMaker& make);

}  // namespace capstan::train
