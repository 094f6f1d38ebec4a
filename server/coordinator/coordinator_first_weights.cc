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
  job_.initial_source.reset();
  if (!job_.journal.AwaitsInitialWeights()) return;
  const Worker* first = nullptr;
  for (const auto& [session, worker] : job_.members.workers()) {
    if (job_.ranks.in_use() ? worker.rank == 1 : first == nullptr || ComesBefore(worker.name, first->name))
      first = &worker;
  }
  if (first != nullptr) job_.initial_source = InitialSource{first->session, first->name};
}

void Coordinator::KeepFounder(Instant now, Outbox* out) {
  if (!job_.journal.AwaitsInitialWeights() || job_.stopping()) return;
  if (!job_.initial_source) {
    ChooseFounder();
    if (!job_.initial_source) return;
    ++job_.view_sequence;
    return SendViews(out);
  }
  if (job_.members.Find(job_.initial_source->session) != nullptr) return;
  out->Say(Severity::kWarning, "\"" + job_.initial_source->name +
                                   "\" is gone before its first weights were kept; what came of " +
                                   "them is forgotten, and the next worker gives its own");
  StartRecovery(Recovery::kGoBack, now, out);
}

// There is no older snapshot to go on with.
void Coordinator::FailFirstWeights(ShardIndex shard, const std::string& why, Outbox* out) {
  Fail(Refused("the first weights cannot be kept, so the job cannot begin: " + job_.shards.NameOf(shard) + ": " + why +
               "; put right what is wrong with that directory, and begin again"),
       out);
}

}  // namespace capstan::server
