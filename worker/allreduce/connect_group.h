// ConnectGroup: connects the workers of a generation. ShareReplica: sends one member's version to all others.
//
// Fails:  as the mesh, CollectiveThread and the callbacks.
// Why:    AllReduceCore decides when a group is formed and who sends the version; these functions only carry it out.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/allreduce/all_reduce_commands.h"
#include "worker/allreduce/replica.h"
#include "worker/collective/collective_thread.h"
#include "worker/collective/gloo_mesh.h"

namespace capstan::train {

struct ConnectOptions {
  collective::CreateMesh create_mesh = collective::CreateGlooMesh;
  std::string host;  // this machine's address, as the others reach it
  Encoding wire = Encoding::kFp32;
  std::chrono::milliseconds silence = std::chrono::seconds(10);  // a member silent for this long is lost
  std::size_t buckets = 1;                                       // most buckets waiting to be reduced
  // Offers this worker's address and waits for all members' addresses; returns them by rank.
  std::function<Result<std::vector<std::string>>(std::string address)> exchange;
};

Result<std::unique_ptr<collective::CollectiveThread>> ConnectGroup(const Meet& meet, const ConnectOptions& options);

// `look_up` is polled while this worker waits, because the member that sends may be lost silently. If `look_up` returns
// an error, ShareReplica returns that error.
Status ShareReplica(const ShareVersion& share, const std::function<Status()>& look_up,
                    collective::CollectiveThread* group, Replica* replica);

}  // namespace capstan::train
