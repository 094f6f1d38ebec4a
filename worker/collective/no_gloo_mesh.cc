// Replaces gloo_mesh.cc in builds without Gloo.
#include "worker/collective/gloo_mesh.h"

namespace capstan::collective {

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const MeshOptions&, Rendezvous*, Deadline) {
  return Unsupported(
      "this build has no Gloo, so its workers cannot use it to reduce among themselves; write \"secure\" in its place "
      "in [allreduce], or install libgloo-dev and build again");
}

}  // namespace capstan::collective
