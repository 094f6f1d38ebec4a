// CreateSecureMesh: a mesh between processes, over encrypted connections between members that have proved who they are.
//
// Kind:   shared. A mesh has a thread of its own besides those of its transport.
// Limits: as PieceExchange; libzmq bounds what a connection costs.
// Fails:  as the rendezvous; kInvalid for wrong ranks or addresses; kUnreachable, which names the ranks that no
//         connection was made to. Connecting may take as long again as the time until `deadline`, counted from the end
//         of the exchange. A killed rank ends a call within about a second, a cut link after `silence`. A call that
//         fails returns when the other ranks know of it, or after about `answer`; then nothing refers to the caller's
//         memory.
// Why:    gradients are a job's data, and a stranger's bytes in a sum would be in every worker's weights.
//
// Each rank draws a key pair for each mesh, and publishes the public key with its address (HOST:PORT#KEY) through the
// rendezvous. That is the coordinator, which knows its workers. So both ends of each connection prove that they are
// members of this group (CurveZMQ); nothing else opens it, neither a worker's own key nor that of an earlier group, and
// the secret is nowhere but in its process. Connections are encrypted in every job, also in one without keys: there the
// group is closed to everybody who cannot join the job.
//
// Each rank connects to each other one: two connections for each pair, one for the pieces that each of them sends. What
// answers a piece or a question comes back on the same connection, and does not wait behind payload.
#pragma once

#include "worker/collective/mesh_options.h"

namespace capstan::collective {

Result<std::shared_ptr<Mesh>> CreateSecureMesh(const MeshOptions& options, Rendezvous* rendezvous, Deadline deadline);

}  // namespace capstan::collective
