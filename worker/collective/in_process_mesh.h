// CreateInProcessMeshes: a mesh between threads of one process.
//
// Kind:   each element is one rank's; they share what is between them.
// Why:    many ranks in one test, and no sockets where all ranks are here anyway.
#pragma once

#include "worker/collective/mesh.h"

namespace capstan::collective {

std::vector<std::shared_ptr<Mesh>> CreateInProcessMeshes(int size, const NameOfRank& name_of = {});

}  // namespace capstan::collective
