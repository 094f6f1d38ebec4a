// What the bits of a gradient depend on, besides its inputs: the build, the kind of machine, and the kernels that are
// chosen on it.
//
// Kind:   pure functions of the build and the machine.
// Why:    workers of one job are interchangeable only when they compute the same bits (PROTOCOL.md 7). The fingerprint
//         is of results, not of names: two machines that agree on it may differ in whatever does not matter.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/context.h"

namespace capstan::train {

// "capstan 0.1.0, g++ 12.2.0, fp32, cpu", for T = float, Bf16 or Half; for people, and compared. Names the products of
// bf16 where they have bits of their own.
template <class T>
std::string NumericClass();

// XXH3 of the gradients of fixed small models that store T, on fixed data: every kernel of the job's path takes part.
template <class T>
std::uint64_t NumericFingerprint(kernels::CpuContext& context);

}  // namespace capstan::train
