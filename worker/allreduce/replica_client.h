// ReplicaClient: a worker of mode allreduce. Gradients are added up among the workers, each of which has all weights
// and runs the optimizer on them; coordinator and shards lead the steps, and get the versions that are to be kept.
//
// Kind:   as Client; with a thread for the group besides.
// Fails:  as Client; a group that breaks ends the round with kStale, and the next one begins when the workers that are
//         left have formed another group.
// Why:    between fast and equal links a ring carries 2 (P - 1) / P of the gradient, and nothing goes to a server and
//         back.
//
// Where the members of a generation form a group of devices, gradients go there (DeviceReducer); what is said of a
// gradient's place and of the ring is then not so: BeginSlot's array is filled when the step ends.
//
// A round: BeginSlot .. EndSlot for each slot; in the last one a bucket is reduced as soon as its blocks are final, and
// updated as soon as it is reduced. The last EndSlot returns when the next version is built. It becomes the present one
// when the coordinator has committed the step: that is the next round's beginning.
#pragma once

#include "worker/allreduce/device_reducer.h"
#include "worker/client/session_client.h"

namespace capstan::train {

struct ReplicaClientOptions {
  std::string coordinator;  // "host:port"
  std::string worker;
  std::string host;  // of this machine, as the other workers reach it
  std::function<void(const std::string&)> on_notice = nullptr;
  // Of the model that computes, once there is one; null: gradients are the host's. Nobody calls the client when it is
  // gone.
  std::function<DeviceReducer*()> devices = [] { return nullptr; };
};

std::unique_ptr<Client> CreateReplicaClient(client::Connection connection, ReplicaClientOptions options);

}  // namespace capstan::train
