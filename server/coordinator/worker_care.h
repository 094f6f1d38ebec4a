// DealSlots, HelpSlowWorkers, RenewMachineGroups, PassBarrierWhenComplete: the regular care for the workers of a job.
//
// Kind:   functions that change the members of a Job, and send views to those that have to know.
#pragma once

#include "common/wire/actor.h"

namespace capstan::server {

struct Job;
struct Worker;

// Deals the slots to the present workers. The caller sends views.
void DealSlots(Job* job, Outbox* out);
// Sends views to workers whose slots have changed or, in jobs with machine groups, to all. Other workers get theirs as
// answers to their next Heartbeats.
void SendNewSlots(Job* job, Outbox* out);
// Sends the views that had to wait for the shards.
void SendDueViews(Job* job, Outbox* out);
// Gives each slow worker's slots to a second worker as well, if one is idle.
void HelpSlowWorkers(Job* job, Instant now, Outbox* out);
// Replaces machine groups that are broken, or whose workers or slots have changed.
void RenewMachineGroups(Job* job, Instant now, Outbox* out);
// Takes the state of a machine group from a worker's last Heartbeat.
void NoteMachineGroup(Job* job, const Worker& worker, Instant now, Outbox* out);
void PassBarrierWhenComplete(Job* job, Outbox* out);

}  // namespace capstan::server
