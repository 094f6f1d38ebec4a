// ReplicaClient: a worker of mode allreduce. Workers add up gradients among themselves; each has all weights and runs
// the optimizer. The shards receive only versions that are uploaded.
//
// Kind:   as Client; runs one more thread, for the group.
// Fails:  as Client. A broken group ends the round with kStale; the next round begins when the remaining workers have
//         formed another group.
// Why:    each of P workers sends only 2 (P - 1) / P of the gradient around the ring, and no gradient goes to a server.
//         That suits fast links of equal speed.
//
// If the members of a generation form a group of devices, gradients are added up there (DeviceReducer), not by the
// ring. The array that BeginSlot returns then has the sum only when the round's last EndSlot has returned.
//
// In a round's last slot a bucket is reduced as soon as its blocks are final, and updated as soon as it is reduced. The
// last EndSlot returns when the next version is built. That version becomes the present one at the beginning of the
// next round, when the coordinator has committed the step.
#pragma once

#include "worker/allreduce/device_reducer.h"
#include "worker/client/client_base.h"

namespace capstan::train {

struct ReplicaClientOptions {
  std::string coordinator;  // its address
  std::string key_file;     // with this worker's key, where the address has one
  std::string worker;
  std::string host;  // this machine's address, as the other workers reach it
  std::function<void(const std::string&)> on_notice = nullptr;
  // Returns the model's DeviceReducer; null: gradients are added up on the hosts, or there is no model yet. When the
  // reducer is destroyed, only the client's destructor may still be called.
  std::function<DeviceReducer*()> devices = [] { return nullptr; };
};

std::unique_ptr<Client> CreateReplicaClient(client::Connection connection, ReplicaClientOptions options);

}  // namespace capstan::train
