// LocalWorker: what a simulated worker does in a job with allreduce.local_reduce: what worker/train's LocalReducer does
// around a Session, with the plan and the sums of the product. LocalBoard: where the workers of a machine meet, without
// the servers.
//
// Kind:   the board is owned by the cluster and shared by its workers, each of which owns a LocalWorker.
// Why:    a group comes and goes beside steps and generations, and whoever was to push for others may be gone, or have
//         pushed a part of it: the weights are those of every worker pushing by itself.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "common/catalog.h"
#include "common/random.h"
#include "tests/sim/cluster.h"
#include "worker/client/session.h"
#include "worker/client/slot_sums.h"
#include "worker/train/local/local_sums.h"

namespace capstan::sim {

struct LocalMeeting {
  std::map<int, std::vector<client::SlotSums::Part>> brought;  // by rank
  bool somebody_alone = false;                                 // who pushes by itself
};

class LocalBoard {
 public:
  LocalMeeting* At(std::uint64_t epoch, Generation generation, Step step) {
    return &meetings_[{epoch, generation, step}];
  }

 private:
  std::map<std::tuple<std::uint64_t, Generation, Step>, LocalMeeting> meetings_;  // they stay
};

class LocalWorker {
 public:
  struct Settings {
    std::uint64_t node = 0;
    const ClusterOptions* options = nullptr;
    const Catalog* catalog = nullptr;
    RandomStream* random = nullptr;
    BufferPool* sums = nullptr;
    LocalBoard* board = nullptr;
    Encoding encoding = Encoding::kFp32;
    std::function<void(const char*)> count;
  };
  LocalWorker(Settings settings, client::Session* session);

  void TakeGroup(const client::Session::LocalGroup& group, Instant now, Outbox* out);
  // A round whose gradients are there. How its parts are to be pushed, which are encoded before the next Run.
  client::PushWay BeginRound(const client::Work& work, float loss_scale,
                             const std::vector<client::SlotSums::Part>& parts, Instant now);
  void Run(Instant now, Outbox* out);
  // Whether the round is not to end yet, because this worker has to push for others.
  bool pushes_for_others() const { return meeting_ != nullptr && group_.rank == 0; }
  void EndRound() { meeting_ = nullptr; }

 private:
  bool Strikes(double probability, Instant now);
  train::LocalPlan Plan() const;
  void Break(const char* why, Instant now, Outbox* out);
  bool PushSums(const train::LocalPlan& plan, Instant now, Outbox* out);
  void PushBlock(const train::LocalPlan& plan, BlockIndex index, Instant now, Outbox* out);

  const Settings settings_;
  client::Session* const session_;
  client::Session::LocalGroup group_;
  bool formed_ = false;
  Generation last_generation_;
  Step last_step_;
  bool any_step_ = false;

  // The round.
  LocalMeeting* meeting_ = nullptr;  // null: it is over, or nobody is met in it
  client::Work work_;
  float loss_scale_ = 1.0F;
  Instant until_{};
};

}  // namespace capstan::sim
