// CreateInProcessMeshes: a mesh between threads of one process. Element i of the result is rank i's end of it.
//
// Kind:   shared; each rank's end is used by its own threads.
// Why:    tests run many ranks in one process, without sockets.
#pragma once

#include <memory>
#include <vector>

#include "worker/collective/mesh.h"

namespace capstan::collective {

std::vector<std::shared_ptr<Mesh>> CreateInProcessMeshes(int size, const NameOfRank& name_of = {});

}  // namespace capstan::collective
