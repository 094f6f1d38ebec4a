// Cluster: the processes of a simulated job, their network, disks and clocks, and the faults that hit them.
//
// Kind:   owned by RunCluster. Its functions are in cluster.cc (processes, time, the end), cluster_network.cc
//         (messages) and cluster_faults.cc (faults).
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/shard.h"
#include "tests/sim/addresses.h"
#include "tests/sim/checks.h"
#include "tests/sim/cluster.h"
#include "tests/sim/disk.h"
#include "tests/sim/follower.h"
#include "tests/sim/lines.h"
#include "tests/sim/log.h"
#include "tests/sim/markers.h"
#include "tests/sim/mutants.h"
#include "tests/sim/payload_account.h"
#include "tests/sim/shared_lines.h"
#include "tests/sim/wire.h"
#include "tests/sim/worker.h"

namespace capstan::sim {

using server::Coordinator;
using server::Shard;

inline constexpr double kTickSeconds = 0.025;

struct Delivery {
  Instant at{};
  std::uint64_t order = 0;
  std::uint64_t from = 0, to = 0;
  Message message;
  bool zombie = false;  // sent by a replaced coordinator
  bool on_line = true;  // takes up room on its line
  // Of a payload in its sender's memory: the reference to it, and its hash when it was sent.
  std::optional<PayloadReference> reference = {};
  std::uint64_t referred_hash = 0;
  bool operator>(const Delivery& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
};

struct SimCoordinator {
  std::unique_ptr<Coordinator> core;
  std::shared_ptr<monitoring::CoordinatorMetrics> metrics;
  Instant paused_until{};
  Instant clock_offset{};  // added to its clock
};

struct SimShard {
  std::unique_ptr<Shard> core;
  std::shared_ptr<monitoring::ShardMetrics> metrics;
  Incarnation incarnation;
  std::deque<std::pair<Instant, server::DiskWork>> disk_work;  // each done at that time
  std::deque<std::pair<Instant, server::LogWork>> log_work;
  Instant paused_until{};
  Instant clock_offset{};
};

class Cluster {
 public:
  Cluster(const ClusterOptions& options, const Mutant* mutant);

  Outcome Run();

 private:
  struct Partition {
    std::set<std::uint64_t> from, to;  // messages from `from` do not reach `to`
    Instant until{};
  };

  bool Calm() const { return now_ >= options_.calm_after; }
  bool Chance(double probability) { return random_.Unit() < probability; }
  bool Strikes(double rate) { return rate > 0 && Chance(rate * kTickSeconds); }
  Instant Up_to(std::uint64_t milliseconds) {
    return Instant(static_cast<std::int64_t>(random_.Below(milliseconds * 1'000'000)));
  }
  void Count(const std::string& what) { ++outcome_.counts[what]; }
  void Trace(const std::string& line) const {
    if (options_.trace) options_.trace(std::to_string(now_.count() / 1'000'000) + " ms: " + line);
  }

  // ---- processes
  void StartCoordinator();
  void StopCoordinator();
  void StartShard(std::uint32_t index);
  // Call when the shard dies. Leaves all, some or none of an interrupted append's records on disk.
  void TearLog(std::size_t index);
  // Kills the shard. The first piece of its disk work may be done nevertheless, without any process learning it.
  void KillShard(std::size_t index);
  void StartWorker(const std::string& name);
  ReplicaWorker::Settings ReplicaSettings(std::uint64_t node);
  MachineWorker::Settings MachineSettings(std::uint64_t node);

  // ---- network
  bool Parted(std::uint64_t from, std::uint64_t to) const;
  // Returns the present state, as checks, markers and mutants see it.
  const World& Look();
  void Send(std::uint64_t from, Outbox* outbox, bool zombie = false);
  // Replaces the message by what its receiver decodes. Returns false, and fails the job, if it cannot be encoded.
  bool Travels(std::uint64_t from, Message* message);
  void NoteEvent(std::uint64_t from, const Envelope& envelope);
  // Whether the line has room for the message; if not, the message is dropped.
  bool HasRoom(std::uint64_t from, const Envelope& envelope);
  void Lost(const Message& message);
  void Enqueue(std::uint64_t from, const Envelope& envelope, bool zombie);
  // Leaves the payload in its sender's memory, if both ends are processes that share theirs.
  void LeavePayload(Delivery* delivery);
  // Copies the payload from its sender's memory. Returns false if the message is lost.
  bool FetchPayload(Delivery* delivery);
  bool Lives(std::uint64_t node) const;
  // When the process goes on; the past if it is not paused.
  Instant PausedUntil(std::uint64_t node) const;
  // Remembers the message, and perhaps delivers an older one again. Messages that decide something are remembered
  // separately, because there are few of them.
  void Replay(const Delivery& delivery);
  // Flips a bit of the payload, if it is a gradient or weights.
  void Damage(Message* message);
  // Returns false if there is no payload of a block's size.
  bool FlipBit(Message* message);
  template <class Body>
  void Falsify(Message* message, Body* body);
  Tampering MakeTampering(std::uint64_t from, std::uint64_t to, const Message& message);
  void SendForged(const Tampering& tampering);
  bool MutateSend(std::uint64_t from, bool zombie, Envelope* envelope);
  // Calls handle(message) for the delivered message; if a mutant breaks a rule, for what the mutant makes of it.
  void Arrive(const Delivery& delivery, const Coordinator* receiver, const std::function<void(const Message&)>& handle);
  // If the receiver is paused, delivers the message at the end of the pause instead, and returns true.
  bool Postponed(const Delivery& delivery, Instant paused_until);
  void Deliver();
  void See();
  void DeliverToCoordinator(SimCoordinator* coordinator, const Delivery& delivery);
  void DeliverToShard(std::size_t index, const Delivery& delivery);
  void CopyInPlace(SimWorker* worker, PeerId from, const Message& message);
  // Sometimes delivers the same weights again with a changed payload, as if the shard had changed its memory and
  // repeated the message.
  void RepeatChanged(SimWorker* worker, PeerId from, const Message& message, Outbox* out);
  void Hand(SimShard* shard, std::uint64_t from, const Message& message, bool may_lend, Outbox* out);
  // Delivers a forged message to the shard: this one with other contents, from a sender that may not send it.
  void Forge(std::size_t index, const Message& seen);
  // Changes the message into a forged one. Returns its sender; 0: nothing of this kind is forged now.
  std::uint64_t ForgeContents(const Shard& shard, Message* message);
  // Returns an id that nobody has or, for an intruder, that of a worker which may not send this message: `may` decides.
  SessionId ForgeSession(const Shard& shard, bool intrudes, const std::function<bool(const LiveSession&)>& may);
  void AfterCoordinator(SimCoordinator* coordinator, Outbox* out);
  void AfterShard(std::size_t index, Outbox* out);

  // ---- time
  void TickAll();
  void TickShard(std::size_t index);
  void TickFollower();
  void WorkLog(std::size_t index, Outbox* out);

  // ---- faults
  void InjectFaults();
  void InjectDiskFaults();
  // Call when a message has just changed one shard, and perhaps no other one yet. At such a critical moment this may
  // kill the shard or the coordinator.
  void Aim(std::size_t index);
  // Moves the clock of one process ahead, by up to twice a worker's lease.
  void JumpClock();
  // Some processes get no messages for a while, each until its own time; then the messages arrive at once.
  void Clog();
  void KillCoordinator();
  void KillAll();
  void RequestStop();
  // Call when the coordinator has stopped the job as requested. All servers end, sometimes the workers too, and they
  // come back later.
  void EndStopped();
  // Whether all shards serve the coordinator's generation and no disk is full, so that a last snapshot can be taken.
  bool CanStop() const;
  void ChangeShardCount(std::uint32_t count);
  void PauseServer();
  void Part();
  std::map<std::uint64_t, std::unique_ptr<SimWorker>>::iterator RandomWorker();
  void KillWorker();
  void JoinOrLeave();
  void RestartTheDead();

  // ---- the end
  bool Done() const;
  std::string WhoIsMissing() const;
  void Finish();

  const ClusterOptions options_;
  const Mutant* const mutant_;
  const Flaw flaw_;
  RandomStream random_;
  RandomStream secrets_;  // what coordinators draw
  EditableJobConfig config_;
  const std::vector<TensorSpec> tensors_;
  std::unique_ptr<Catalog> catalog_;
  SimLog records_;
  std::shared_ptr<FencedLog> log_;  // the living coordinator's
  std::vector<std::shared_ptr<FencedLog>> logs_;
  std::unique_ptr<BufferPool> pool_;

  SimCoordinator coordinator_, zombie_;
  Instant zombie_until_{};
  std::vector<SimShard> shards_;
  std::vector<SimDisk> disks_;
  std::size_t full_disk_ = 0;
  Instant full_until_{};
  bool damaged_ = false;
  RingBoard board_;  // the boards outlive the workers
  MachineBoard machine_board_;
  std::map<std::uint64_t, std::unique_ptr<SimWorker>> workers_;
  std::uint64_t worker_lives_ = 0;
  std::unique_ptr<Follower> follower_;  // null: none
  std::vector<std::pair<std::string, Instant>> dead_workers_;
  std::vector<Partition> partitions_;
  // A stop of the job that was requested; `stop_` is empty if none was.
  struct Stop {
    Instant since{};
    std::uint64_t troubles = 0;  // before the stop
    bool undisturbed = false;    // until now
    Generation generation;       // the one that was stopped
  };
  std::optional<Stop> stop_;
  std::uint64_t troubles_ = 0;  // faults that may prevent a last snapshot

  std::priority_queue<Delivery, std::vector<Delivery>, std::greater<>> queue_;
  std::uint64_t order_ = 0, messages_ = 0;
  Wire wire_;
  Lines lines_;
  PayloadAccount payload_;
  std::unique_ptr<SharedLines> shared_;                  // null: all payloads travel
  std::map<std::uint64_t, Instant> clogs_;               // nothing reaches the process until then
  std::map<std::uint64_t, std::uint64_t> lost_through_;  // by sender: messages still in its sockets when it died
  World world_;
  std::array<std::deque<Delivery>, 2> history_;
  std::unique_ptr<Markers> markers_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> mutant_seen_;
  std::map<std::uint64_t, std::uint64_t> mutant_numbers_;
  RandomStream lent_random_{options_.seed, 17};
  Instant now_{}, last_tick_{};
  std::unique_ptr<Checks> checks_;
  Hasher events_;
  Outcome outcome_;
};

}  // namespace capstan::sim
