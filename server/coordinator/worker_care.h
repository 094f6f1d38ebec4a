// DealSlots, HelpSlowWorkers, RenewMachineGroups, PassBarrier: the regular care for the workers of a job.
//
// Kind:   functions that change the members of a Job, and send views to those that have to know.
#pragma once

#include "common/wire/actor.h"

namespace capstan::server {

struct Job;
struct Worker;

// Gives all slots to the present workers. The caller sends views.
void DealSlots(Job* job, Outbox* out);
// Sends views to workers whose slots have changed; the others learn the rest with their next Beat.
void SendNewSlots(Job* job, Outbox* out);
// Has the slots of slow workers computed by a second worker too.
void HelpSlowWorkers(Job* job, Instant now, Outbox* out);
// Machine groups that have failed or changed are formed again. They come and go independently of generations.
void RenewMachineGroups(Job* job, Instant now, Outbox* out);
// Takes the state of a machine group from a worker's last Beat.
void NoteMachineGroup(Job* job, const Worker& worker, Instant now, Outbox* out);
void PassBarrierWhenComplete(Job* job, Outbox* out);

}  // namespace capstan::server
