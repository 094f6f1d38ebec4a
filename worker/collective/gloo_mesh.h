// CreateGlooMesh: a mesh between processes, over Gloo's TCP connections.
//
// Kind:   shared. Four threads for each mesh, and Gloo's own: three hear the other ranks, one keeps deadlines.
// Limits: writes on broken connections raise SIGPIPE, so the program ignores that signal.
// Fails:  kTimeout naming the ranks that were not there to form it; kInvalid; kUnreachable; kUnsupported in a build
//         without Gloo. A broken connection ends a call in about a second, a cut one after `silence`. Where a silent
//         rank has to be told from a slow one, a call ends over a second after its deadline. Connecting may take the
//         deadline's time again.
// Why:    Gloo brings connections, and messages that name their memory on both sides. Ranks are peers who trust each
//         other: nothing is encrypted, nobody is asked who he is, and Gloo ends the process on bytes not its own.
#pragma once

#include "worker/collective/rendezvous.h"

namespace capstan::collective {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;  // of this machine, as the other ranks see it
  NameOfRank name_of;
  // Who is waited for is asked whether he is there, and is lost when he does not answer for about so long; of a link that
  // is cut nobody else would tell. A process that is stopped does not answer either.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
  // A rank that should be there has this long to answer, or to read a farewell.
  std::chrono::milliseconds answer = std::chrono::seconds(1);
  // For a farewell to be read here before its broken connection is taken for a lost rank, and to reach the missing.
  std::chrono::milliseconds farewell{200};
};

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const GlooMeshOptions& options, Rendezvous* rendezvous, Deadline deadline);

}  // namespace capstan::collective
