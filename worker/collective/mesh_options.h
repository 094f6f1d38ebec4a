// MeshOptions: how a mesh between processes is made. CreateMesh: a function that makes one.
//
// Kind:   values.
#pragma once

#include "worker/collective/rendezvous.h"

namespace capstan::collective {

struct MeshOptions {
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

// Returns kInvalid for ranks that cannot be in a mesh.
inline Status CheckRanks(const MeshOptions& options) {
  if (options.size >= 1 && options.size <= kRanksMax && options.rank >= 0 && options.rank < options.size) return {};
  return Invalid("rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
                 " cannot be in a mesh; it has 1 to " + std::to_string(kRanksMax) + " ranks, counted from 0");
}

// CreateGlooMesh and CreateSecureMesh are such functions. All ranks call the same one.
using CreateMesh = Result<std::shared_ptr<Mesh>> (*)(const MeshOptions& options, Rendezvous* rendezvous,
                                                     Deadline deadline);

}  // namespace capstan::collective
