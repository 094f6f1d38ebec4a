// MakeView, SendView, SendViews: the state of a job as workers and readers learn it. SendError: the answer to a message
// that is not accepted.
//
// Kind:   functions of a Job.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/actor.h"
#include "common/wire/messages/view.h"

namespace capstan::server {

struct Job;
struct Worker;

// `worker`: null for a reader, which has no session and no slots.
View MakeView(const Job& job, const Worker* worker);
void SendView(const Job& job, Worker* worker, Outbox* out);
void SendViews(Job* job, Outbox* out);
// Raises the views' number, because the job has changed, and sends the views.
void SendChangedViews(Job* job, Outbox* out);

// `incarnation`: of the shard that is refused; another incarnation at the same address ignores the message. 0: any.
void SendError(const Job& job, PeerId to, Code code, std::string message, Outbox* out, Incarnation incarnation = {});

// Names the members that a barrier waits for; empty if there are none.
std::string MissingInBarrier(const Job& job);
// Explains why a worker has no slot.
std::string WhyIdle(const Job& job);

}  // namespace capstan::server
