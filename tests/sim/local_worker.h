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
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/data/catalog.h"
#include "tests/sim/cluster.h"
#include "worker/client/slot_sums.h"
#include "worker/machine/local_sums.h"
#include "worker/session/session.h"

namespace capstan::sim {

struct LocalMeeting {
  std::map<int, std::vector<client::SlotSums::Part>> brought;  // by rank
  bool somebody_alone = false;                                 // who pushes by itself
  std::set<int> silent;                                        // ranks that are not reached
};

class LocalBoard {
 public:
  using When = std::pair<Generation, Step>;

  LocalMeeting* At(std::uint64_t epoch, When when) { return &meetings_[{epoch, when}]; }
  // Where the members of a group are, once they have formed it.
  void Say(std::uint64_t epoch, int rank, When when) { newest_[{epoch, rank}] = when; }
  bool HasCome(std::uint64_t epoch, int rank, When when) const {
    const auto said = newest_.find({epoch, rank});
    return said != newest_.end() && said->second >= when;
  }

 private:
  std::map<std::pair<std::uint64_t, When>, LocalMeeting> meetings_;  // they stay
  std::map<std::pair<std::uint64_t, int>, When> newest_;
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
  void LeaveStep(const client::Session::StepLeft& left);
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
  LocalBoard::When when() const { return {work_.generation, work_.step}; }
  // Members that are as far, and bring nothing.
  bool SomebodyIsAlone() const;
  void Break(const char* why, Instant now, Outbox* out);
  bool PushSums(const train::LocalPlan& plan, Instant now, Outbox* out);
  void PushBlock(const train::LocalPlan& plan, BlockIndex index, Instant now, Outbox* out);

  const Settings settings_;
  client::Session* const session_;
  client::Session::LocalGroup group_;
  bool formed_ = false;
  std::optional<LocalBoard::When> last_;

  // The round.
  LocalMeeting* meeting_ = nullptr;  // null: it is over, or nobody is met in it
  client::Work work_;
  float loss_scale_ = 1.0F;
  Instant until_{};
};

}  // namespace capstan::sim
