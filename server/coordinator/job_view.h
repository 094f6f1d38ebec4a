// MakeView, SendView, SendViews: the state of a job as workers and readers learn it.
//
// Kind:   functions of a Job.
#pragma once

#include <string>

#include "common/wire/actor.h"
#include "common/wire/messages/view.h"

namespace capstan::server {

struct Job;
struct Worker;

// `worker`: null for a reader, which has no session and no slots.
View MakeView(const Job& job, const Worker* worker);
// Sends the view, after the shards were sent the worker's session and slots. If these have to wait (TellShards), the
// view does so, too: it is due at the next Tick.
void SendView(Job* job, Worker* worker, Outbox* out);
void SendViews(Job* job, Outbox* out);
// Raises the views' number, because the job has changed, and sends the views.
void SendChangedViews(Job* job, Outbox* out);

// How many workers the job waits for where its workers meet. During the first lease after this coordinator's start
// these are cluster.workers, because earlier members may not have come back yet; later cluster.min_workers.
std::size_t WantedWorkers(const Job& job);
// Whether this session's worker is to upload weights: the initial ones or, in an external job, a version to keep.
bool IsFounder(const Job& job, SessionId session);
// Names the members that a barrier waits for; empty if there are none.
std::string MissingInBarrier(const Job& job);
// Explains why a worker has no slot.
std::string WhyIdle(const Job& job);

}  // namespace capstan::server
