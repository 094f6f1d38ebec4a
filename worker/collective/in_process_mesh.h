// CreateInProcessMeshes: a mesh between threads of one process.
//
// Kind:   element i is rank i's mesh; all share one hub.
// Why:    tests run many ranks in one process, without sockets.
#pragma once

#include <memory>
#include <vector>

#include "worker/collective/mesh.h"

namespace capstan::collective {

std::vector<std::shared_ptr<Mesh>> CreateInProcessMeshes(int size, const NameOfRank& name_of = {});

}  // namespace capstan::collective
