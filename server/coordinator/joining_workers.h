// JoiningWorkers: lets workers into a job: what a Join is answered, and whose place a new worker takes.
//
// Kind:   part of the Coordinator.
// Fails:  a process that may not take part is refused (CheckJoin); one that has to wait is told kBusy, and asks again.
// Why:    anybody can send a Join. So a new process takes the name and the rank of another one only once that one's
//         connection has ended, which shows at once when the coordinator sends to a process that was killed.
#pragma once

#include "common/base/types.h"
#include "common/wire/actor.h"

namespace capstan {
struct Join;
}  // namespace capstan

namespace capstan::server {

class JobCourse;
struct Job;
struct Worker;

class JoiningWorkers {
 public:
  // The arguments outlive this object.
  JoiningWorkers(Job* job, JobCourse* course) : job_(job), course_(course) {}

  void Take(PeerId from, const Join& join, Instant now, Outbox* out);
  // Notes a message of a worker: it is no process that has ended.
  void NoteAlive(Worker* worker, Outbox* out);
  // Notes that the connection of a worker has ended. A process that waited for its place gets it.
  void PeerGone(PeerId peer, Outbox* out);
  void Tick(Instant now, Outbox* out);

 private:
  void SendJobFile(PeerId to, Outbox* out) const;
  // Returns whether the Join was answered: it is a repeated one, or has to wait.
  bool Answers(PeerId from, const Join& join, Instant now, Outbox* out);
  void Add(PeerId from, const Join& join, Instant now, Outbox* out);
  void NameMixedRanks(const Join& join, Outbox* out) const;
  void AskNamesake(Worker* namesake, Outbox* out);
  void AwaitRank(PeerId from, const Join& join, Worker* holder, Outbox* out);
  void Replace(const Worker& worker, Outbox* out);
  void GiveRankUp(const Worker& worker, Outbox* out);
  void MoveRanks(Instant now, Outbox* out);

  Job* const job_;
  JobCourse* const course_;
  bool deal_is_due_ = false;  // a worker has joined that may take another one's slots
};

}  // namespace capstan::server
