// CreateGlooMesh: a mesh between processes, over Gloo's TCP connections.
//
// Kind:   two threads for each mesh, and Gloo's own: one answers other ranks that ask who is there, one keeps
// deadlines. Limits: writes on broken connections raise SIGPIPE, so the program ignores that signal. Fails:  kTimeout
// naming the ranks that were not there to form it; kUnreachable; kUnsupported in a build without Gloo.
//         Where a silent rank has to be told from a slow one, a call ends up to a second after its deadline.
// Why:    Gloo brings connections, and messages that name their memory on both sides. Ranks are peers who trust each
//         other: nothing is encrypted, and nobody is asked who he is.
#pragma once

#include "worker/collective/rendezvous.h"

namespace capstan::collective {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;  // of this machine, as the other ranks see it
  NameOfRank name_of;
};

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const GlooMeshOptions& options, Rendezvous* rendezvous, Deadline deadline);

}  // namespace capstan::collective
