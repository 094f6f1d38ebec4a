// Identity: the address, the name and the number of this process, by the program or by what started it.
//
// Kind:   a value.
// Fails:  kInvalid: no address; numbers that make no sense.
// Why:    the same program runs under capstan launch, mpirun, srun and torchrun, and the variables that they set are
//         read in one file.
#pragma once

#include <capstan/libtorch.h>

#include <cstdint>
#include <optional>
#include <string>

namespace capstan::libtorch {

struct Identity {
  ClientOptions client;
  std::optional<std::uint32_t> number;  // a process that is started in its place has the same one
};

Result<Identity> IdentityOf(const ConnectOptions& options);

}  // namespace capstan::libtorch
