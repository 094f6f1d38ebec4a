// WorkPlan: which slots of which step a session computes next, and what the mode makes of the messages about a step.
//
// Kind:   owned by the Session; part of its core. One implementation per family of modes, chosen in MakeModeParts.
// Why:    everything in a session that depends on the mode is here, in PushCredit and in WorkerGroup.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "worker/session/coverage.h"
#include "worker/session/session_events.h"
#include "worker/session/shard_pull.h"
#include "worker/session/step_terms.h"
#include "worker/session/version_source.h"

namespace capstan {
struct View;
}  // namespace capstan

namespace capstan::session {

inline bool Has(const std::vector<SlotIndex>& slots, SlotIndex slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

class WorkPlan {
 public:
  virtual ~WorkPlan() = default;

  // Returns the round's step. With global steps it is also the number of the version that the round computes with.
  Step step() const { return step_; }
  float loss_scale() const { return loss_scale_; }  // loss scale of the step
  struct Made {
    std::uint64_t updates = 0;   // sync: updates that the step's weights have had; else 0
    double gradient_norm = 0.0;  // of the step that made the version; 0: there is none
  };
  // Returns how the version came about.
  const Made& made() const { return made_; }
  const StepTerms& terms() const { return terms_; }  // allreduce: terms of the step
  const Coverage& coverage() const { return coverage_; }
  void BeginCoverage(std::size_t shards) { coverage_.Begin(shards); }
  bool TakeCoverage(ShardIndex shard, const Staged& staged, std::size_t blocks) {
    return coverage_.Take(shard, staged, blocks);
  }

  // ---- choosing work
  struct Situation {
    const std::vector<SlotIndex>& slots;  // this session's slots
    bool old_pushes = false;              // pushes of rounds before the newest one are not acknowledged yet
  };
  enum class Next { kNothing, kAskCoverage, kCompute };
  struct Choice {
    Next next = Next::kNothing;
    std::vector<SlotIndex> slots;  // kCompute: the round's slots
    std::optional<Step> done;      // this session has nothing more to do in that step
    // If set, the session sends the shards a CoverageQuery for this step. The session may have dropped speculative
    // blocks, which a shard sends a waiting session only once. On the query the shard forgets that it sent them;
    // otherwise the session would get them only after a timeout.
    std::optional<Step> dropped;
  };
  // Chooses what to do next. Call when the application waits for work.
  virtual Choice Choose(const Situation& situation) = 0;
  // Call when all shards have answered with their coverage. `slots`: this session's. `blocks`: how many the job has.
  virtual void FinishCoverage(const std::vector<SlotIndex>& slots, std::size_t blocks) = 0;
  // Notes that this session's slots have changed, so what the shards have of them must be asked.
  virtual void SlotsChanged() = 0;
  // Decides about the pull under way when this session's slots have changed. kVoid: the round is over. kBack: the pull
  // is dropped, and the step before is chosen again, whose weights the application still has. `announced`: whether
  // WorkReady was issued for the round.
  enum class Pulled { kStays, kVoid, kBack };
  virtual Pulled ReconsiderPull(bool announced) = 0;
  // Notes that WorkReady was issued for the round: this session cannot go back to the step before.
  virtual void WorkAnnounced() {}
  // Notes that the application waits for work again, after a round of these slots: their work is done or given up.
  virtual void RoundOver(const std::vector<SlotIndex>& slots) = 0;
  // Whether a session that waits for work should choose again when a shard acknowledges pushes.
  virtual bool ChoosesAtAcknowledgement() const = 0;
  virtual void MoveToStep(Step step) { step_ = step; }
  virtual void EnterGeneration(Step step) = 0;
  // Begins the step again, of which nothing counts that the shards do not have: asks them for their coverage first.
  virtual void StartOver() = 0;
  // Whether this session's step is over, because the job is at `step`.
  virtual bool IsBehind(Step step) const = 0;
  // Whether this session's slots stay the same for a whole generation.
  virtual bool KeepsSlots() const { return false; }

  // ---- pushes
  // Returns the number that pushes carry: with global steps the step, else the slot's sequence number.
  virtual Step PushStep() const = 0;
  // Whether the shard already has this node of the block, so that it need not be pushed.
  virtual bool HasNode(BlockIndex block, Node node) const = 0;
  // Notes that the round's work for this slot is done. Returns whether the slot's EndSlot must be sent.
  virtual bool EndSlot(SlotIndex slot) = 0;
  // Whether the slot's work of this step is done, by this session or another.
  virtual bool IsDone(SlotIndex slot) const = 0;
  // Whether this answer to a CoverageQuery is about the step that was asked for.
  virtual bool IsCoverage(const Staged& staged) const = 0;
  // Whether the session fails if a shard answers that a message is invalid (kInvalid).
  virtual bool RefusalsAreFinal() const = 0;

  // ---- weights
  virtual PullKind pull_kind() const = 0;
  // Whether the application has all of the step's weights.
  virtual bool weights_complete() const { return false; }
  virtual void PullComplete() {}
  // ---- one pull after the other, if a version has several arrays
  // Call when the pull of the step's version begins.
  virtual void BeginPull() {}
  // Returns the array to pull, as in a Pull.
  virtual std::uint32_t pull_array() const { return 0; }
  // Call when all blocks of the array are here. Returns whether another array is to be pulled.
  virtual bool NextArray() { return false; }
  // Whether work may be announced as soon as the first weights are here.
  virtual bool AnnouncesEarly() const { return true; }
  // ---- jobs whose optimizer stays in the program
  virtual VersionSource source() const { return VersionSource::kServers; }
  // Whether the step's version is the last one, of which nothing is to be computed.
  virtual bool at_end() const { return false; }
  // Returns the version that the program has; nullopt: none, or the servers have all versions.
  virtual std::optional<Step> program_version() const { return std::nullopt; }
  // Notes which version the program has. nullopt: it has not made the version of a round without slots; it gets none
  // before it gets slots. Returns whether it could not follow the job before, and can now.
  virtual bool Took(std::optional<Step>) { return false; }
  // Whether the job asks in this view for the version that the program has and has not given yet. `generation`: this
  // session's.
  virtual bool MustGive(const View&, Generation) const { return false; }
  // Makes the round without slots in which the program gives that version.
  virtual WorkReady MakeGiving(Generation, std::uint64_t) const { return {}; }
  // Notes that the program has given the version that it has.
  virtual void Gave() {}
  // Whether the program can follow the job: it has the step's version, or the one before.
  virtual bool follows() const { return true; }
  // Whether these weights answer the pull of the present step's version.
  virtual bool Wants(const Weights& weights) const = 0;
  // Returns the last step that is over at the shard, as these weights show; nullopt if they do not show it.
  virtual std::optional<Step> PassedBy(const Weights& weights) const = 0;
  // Takes the step's settings, such as the loss scale. Returns whether this is the job's last version.
  virtual bool Note(const Weights& weights) = 0;
  virtual bool Note(const Published& published) = 0;

 protected:
  Step step_;
  float loss_scale_ = 1.0F;
  Made made_;
  StepTerms terms_;
  Coverage coverage_;
};

}  // namespace capstan::session
