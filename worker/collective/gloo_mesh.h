// CreateGlooMesh: a mesh between processes, over Gloo's TCP connections.
//
// Kind:   shared. A mesh of two or more ranks has four threads besides Gloo's: three listen to other ranks, one watches
//         deadlines.
// Limits: writes on broken connections raise SIGPIPE, so the program must ignore that signal.
// Fails:  as the rendezvous; kInvalid for wrong ranks or addresses; kUnreachable; kUnsupported in a build without Gloo.
//         A broken connection ends a call within about a second, a cut link after `silence`. To tell a silent rank from
//         a slow one, a call may end over a second after its deadline. Connecting to a rank may take as long again as
//         the time until `deadline`, counted from the end of the exchange.
// Why:    Gloo provides connections, and messages that name their memory on both sides. Before a byte of
//         Gloo's, both ends of each connection prove that they are members (member_sockets.h). After that they trust
//         each other, and nothing is encrypted: who reads or changes what is on the network reads or changes sums.
#pragma once

#include "worker/collective/mesh_options.h"

namespace capstan::collective {

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const MeshOptions& options, Rendezvous* rendezvous, Deadline deadline);

}  // namespace capstan::collective
