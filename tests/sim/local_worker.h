// LocalWorker: a simulated worker's part in a job with allreduce.local_reduce: it plays LocalReducer (worker/train)
// around a Session, with the product's plan and sums. LocalBoard: where the workers of a machine exchange data,
// without the servers.
//
// Kind:   the board is owned by the cluster and shared by its workers, each of which owns a LocalWorker.
// Why:    a group comes and goes independently of steps and generations, and the worker that pushes for the others may
//         be gone, or may have pushed only a part. The weights must still be those of every worker pushing by itself.
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
  std::map<int, std::vector<client::SlotSums::PartialSum>> brought;  // by rank
  bool somebody_alone = false;                                       // a member pushes by itself
  std::set<int> silent;                                              // ranks that cannot be reached
};

class LocalBoard {
 public:
  using When = std::pair<Generation, Step>;

  LocalMeeting* At(std::uint64_t epoch, When when) { return &meetings_[{epoch, when}]; }
  // The members that have formed the group.
  void Say(std::uint64_t epoch, int rank, When when) { newest_[{epoch, rank}] = when; }
  bool HasCome(std::uint64_t epoch, int rank, When when) const {
    const auto said = newest_.find({epoch, rank});
    return said != newest_.end() && said->second >= when;
  }

 private:
  std::map<std::pair<std::uint64_t, When>, LocalMeeting> meetings_;  // never removed
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
  LocalWorker(Settings settings, session::Session* session);

  void TakeGroup(const session::Session::LocalGroup& group, Instant now, Outbox* out);
  void TakeStepDone(const session::Session::StepDone& left);
  // Takes a round whose gradients are complete. Returns how to push its parts; they are encoded before the next Run.
  session::PushWay BeginRound(const session::RoundWork& work, float loss_scale,
                              const std::vector<client::SlotSums::PartialSum>& parts, Instant now);
  void Run(Instant now, Outbox* out);
  // Whether the round must not end yet, because this worker has to push for others.
  bool pushes_for_others() const { return meeting_ != nullptr && group_.rank == 0; }
  void EndRound() { meeting_ = nullptr; }

 private:
  bool Strikes(double probability, Instant now);
  train::LocalPlan Plan() const;
  LocalBoard::When when() const { return {work_.generation, work_.step}; }
  // Members at the same step that bring nothing.
  bool SomebodyIsAlone() const;
  void Break(const char* why, Instant now, Outbox* out);
  bool PushSums(const train::LocalPlan& plan, Instant now, Outbox* out);
  void PushBlock(const train::LocalPlan& plan, BlockIndex index, Instant now, Outbox* out);

  const Settings settings_;
  session::Session* const session_;
  session::Session::LocalGroup group_;
  bool formed_ = false;
  std::optional<LocalBoard::When> last_;

  // The current round.
  LocalMeeting* meeting_ = nullptr;  // null: the round is over, or the worker takes part alone
  session::RoundWork work_;
  float loss_scale_ = 1.0F;
  Instant until_{};
};

}  // namespace capstan::sim
