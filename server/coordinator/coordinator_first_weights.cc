// How a job begins when its first weights come from a worker. One member at a time is the founder: its weights become
// version 0, which is on disk before anything is computed from it. If the founder is lost earlier, its generation ends,
// so that the weights of two workers never mix.
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/natural_order.h"

namespace capstan::server {

// With ranks the founder is rank 0, and there is none until that worker has joined. Otherwise it is the present member
// whose name sorts first, so the order of joining decides nothing.
void Coordinator::ChooseFounder() {
  founder_.reset();
  if (!job_.journal.AwaitsInitialWeights()) return;
  const Worker* first = nullptr;
  for (const auto& [session, worker] : members_.workers()) {
    if (ranks_.in_use() ? worker.rank == 1 : first == nullptr || ComesBefore(worker.name, first->name)) first = &worker;
  }
  if (first != nullptr) founder_ = Founder{first->session, first->name};
}

void Coordinator::KeepFounder(Instant now, Outbox* out) {
  if (!job_.journal.AwaitsInitialWeights() || stop_requested_) return;
  if (!founder_) {
    ChooseFounder();
    if (!founder_) return;
    ++view_sequence_;
    return SendViews(out);
  }
  if (members_.Find(founder_->session) != nullptr) return;
  out->Say(Severity::kWarning, "\"" + founder_->name + "\" is gone before its first weights were kept; what came of " +
                                   "them is forgotten, and the next worker gives its own");
  StartRecovery(Recovery::kGoBack, now, out);
}

// The text after "waiting for": first weights from "worker-0" (not kept yet by server 1).
std::string Coordinator::WaitingForFirstWeights() const {
  if (!founder_ && ranks_.in_use()) return "rank 0, which gives the first weights";
  if (!founder_) return "a worker that gives the first weights (none is left)";
  return "first weights from \"" + founder_->name + "\" (not kept yet by " + job_.snapshots.MissingParts() + ")";
}

// There is no older snapshot to go on with.
void Coordinator::FailFirstWeights(ShardIndex shard, const std::string& why, Outbox* out) {
  Fail(Refused("the first weights cannot be kept, so the job cannot begin: " + job_.shards.NameOf(shard) + ": " + why +
               "; put right what is wrong with that directory, and begin again"),
       out);
}

}  // namespace capstan::server
