// CreateGlooMesh: a mesh between processes, over Gloo's TCP connections.
//
// Kind:   shared. A mesh of two or more ranks has four threads besides Gloo's: three listen to other ranks, one watches
//         deadlines.
// Limits: writes on broken connections raise SIGPIPE, so the program must ignore that signal.
// Fails:  as the rendezvous; kInvalid for wrong ranks or addresses; kUnreachable; kUnsupported in a build without Gloo.
//         A broken connection ends a call within about a second, a cut link after `silence`. To tell a silent rank from
//         a slow one, a call may end over a second after its deadline. Connecting to a rank may take as long again as
//         the time until `deadline`, counted from the end of the exchange.
// Why:    Gloo provides connections, and messages that name their memory on both sides. Ranks trust each other: nothing
//         is encrypted or authenticated, and Gloo ends the process on bytes that are not its own.
#pragma once

#include "worker/collective/rendezvous.h"

namespace capstan::collective {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  std::string address;  // this machine's address, as the other ranks reach it
  NameOfRank name_of;
  // A rank that others wait for is probed, and counts as lost when it does not answer for about this long. A cut link
  // is detected in no other way. A stopped process does not answer either.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
  // How long a rank has to answer a question, or to read a failure.
  std::chrono::milliseconds answer = std::chrono::seconds(1);
  // How long to wait, after a connection broke, for the message in which its rank gives the reason. Also how long to
  // try to send such a message to missing ranks.
  std::chrono::milliseconds failure_send{200};
};

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const GlooMeshOptions& options, Rendezvous* rendezvous, Deadline deadline);

}  // namespace capstan::collective
