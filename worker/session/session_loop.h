// SessionLoop: the thread that serves a worker's application (Client): owns the socket, the clock and two cores,
// Session and, for collective calls, TeamMember.
//
// Kind:   its thread owns everything except the two mailboxes and the published counters.
// Limits: kMailboxValues commands or events in a mailbox.
// Why:    the application computes for long stretches; heartbeats, retries and transfers go on meanwhile.
//
// This thread copies weights into the application's memory, between a ReadyCommand and the round's last block. The
// application may read a block after its BlockArrived event. Weights that lie in a shard's memory are copied there by
// the transport once the round's work is announced, before their hash is checked.
#pragma once

#include <capstan/client_counters.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/mailbox.h"
#include "common/flight/flight_notes.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/notice_limit.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "worker/session/session.h"
#include "worker/session/shard_connections.h"
#include "worker/session/team_member.h"
#include "worker/session/wait_times.h"

namespace capstan::session {

// Commands from the application to the loop.
struct DeclareCommand {
  Declaration declaration;
  // Flat arrays for the weights; they outlive the loop. fp32 blocks go to `weights`, blocks with 16-bit numbers to
  // `narrow`. `narrow` is null in a job of fp32.
  float* weights = nullptr;
  std::uint16_t* narrow = nullptr;
  // External: flat arrays for the program's state, as Declaration::state_arrays counts them. The mean gradient goes to
  // `weights`, too: a round has one or the other.
  std::vector<float*> states = {};
  // The loop's thread calls these functions; null: the event is dropped.
  std::function<void(const Session::MachineGrouping&)> on_machine_group = nullptr;
  std::function<void(const Session::StepDone&)> on_step_done = nullptr;
};
struct ReadyCommand {};
using PushCommand = Gradient;
// The arguments of Session::ReleasePushes, Session::SumsMade and Session::ReportMachineGroup.
struct ReleaseCommand {
  std::uint64_t round = 0;
};
struct SumsMadeCommand {
  std::uint64_t round = 0;
};
struct MachineGroupCommand {
  std::uint64_t epoch = 0;
  GroupState state = {};  // kNone
  std::string text;
};
struct EndSlotCommand {
  std::uint64_t round = 0;
  SlotReport report;
  std::string program_state;
};
struct HyperParametersCommand {
  std::vector<HyperParameters> groups;
};
// allreduce: the arguments of Session::UploadVersion and Session::ReportGroup.
struct UploadCommand {
  std::uint64_t round = 0;
  std::vector<Slice> arrays;
  std::vector<BlockIndex> blocks;
};
struct GroupCommand {
  Generation generation;
  GroupState state = {};  // kNone
  std::string text;
};
using SettleCommand = VersionSettled;
struct BarrierCommand {};
// The arguments of TeamMember::Form and TeamMember::Call.
struct FormTeamCommand {
  std::uint32_t rank = 0, ranks = 0;
  std::uint64_t wish = 0;  // its number
};
struct CallTeamCommand {
  std::string what;
  Slice given;
};
struct LeaveCommand {
  std::string reason;
};
using Command = std::variant<DeclareCommand, ReadyCommand, HyperParametersCommand, PushCommand, EndSlotCommand,
                             UploadCommand, SettleCommand, GroupCommand, ReleaseCommand, SumsMadeCommand,
                             MachineGroupCommand, BarrierCommand, FormTeamCommand, CallTeamCommand, LeaveCommand>;

// Events from the loop to the application. BlockArrived names only the block, because its weights are already in place.
struct BlockArrived {
  BlockIndex block = 0;
  std::string program_state;  // with block 0
};
using LoopEvent = std::variant<Session::JobFile, Session::Joined, Session::WorkReady, BlockArrived, Session::WorkVoid,
                               Session::BarrierWaits, Session::BarrierPassed, TeamFormed, TeamPieces, TeamWaits,
                               TeamFailed, Session::GroupKnown, Session::Finished, Session::Failed>;

class SessionLoop {
 public:
  static constexpr std::size_t kMailboxValues = 1 << 22;
  using OnNotice = std::function<void(const std::string&)>;

  struct Options {
    std::string coordinator;  // its address
    std::string worker;
    std::chrono::milliseconds silence_limit{60'000};
    OnNotice on_notice;
    std::uint32_t rank = 0, ranks = 0;  // as in Join
    std::string machine = {}, metrics = {};
    std::shared_ptr<const KeyPair> keys = {};  // null: this process has none
    // Returns how long the application has read and prepared samples; null: it does not measure this.
    std::function<double()> input_seconds = nullptr;
    FlightLane* flight = nullptr;                     // outlives the loop; null: nothing is recorded
    std::shared_ptr<const SharedMemory> memory = {};  // as in TransportOptions
  };

  static Result<std::unique_ptr<SessionLoop>> Start(const Options& options);
  ~SessionLoop();  // stops the thread
  SessionLoop(const SessionLoop&) = delete;
  SessionLoop& operator=(const SessionLoop&) = delete;

  void Send(Command command);
  Mailbox<LoopEvent>& events() { return events_; }
  // Returns values that the loop published together, at its last tick (kTick) or later. Any thread may call this.
  ClientCounters counters() const { return published_.Read(); }
  // The application's waits for this session, which its Heartbeats report.
  WaitTimes& waits() { return waits_; }

 private:
  explicit SessionLoop(const Options& options);
  std::unique_ptr<Transport> MakeTransport();
  void Run();
  bool DispatchSome();
  void Dispatch(Command& command, Instant now);
  void Declare(DeclareCommand& command, Instant now);
  void SendOut();
  std::byte* PlaceOf(BlockIndex block, std::uint32_t array) const;
  // As TransportOptions::place.
  std::byte* PlaceOf(PeerId from, const Principal& sender, const Header& header, std::size_t bytes) const;
  void HandOverEvents();
  void ReportWaiting(Instant now);
  void PublishCounters();
  void NoteStaged();
  TimeSpent Spent() const;
  void NoteEvent(const Session::Event& event);
  void NoteEvent(const TeamEvent& event);

  const Options options_;
  TransportCounters counters_;
  std::unique_ptr<Transport> transport_;
  ShardConnections shards_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<TeamMember> team_;
  struct Application {  // what the application declared
    std::unique_ptr<Catalog> catalog;
    float* weights = nullptr;
    std::uint16_t* narrow = nullptr;
    std::vector<float*> states;
    Encoding encoding = Encoding::kFp32;
    std::function<void(const Session::MachineGrouping&)> on_machine_group;
    std::function<void(const Session::StepDone&)> on_step_done;
  };
  Application application_;
  Outbox out_;
  FlightNotes flight_;
  NoticeLimit notices_;
  std::string waiting_for_;
  Instant waiting_since_{};
  Instant next_report_{};

  Mailbox<Command> commands_{kMailboxValues};
  Mailbox<LoopEvent> events_{kMailboxValues};
  std::atomic<bool> stopping_{false};
  Latest<ClientCounters> published_;
  WaitTimes waits_;
  struct Staging {  // used by the loop's thread
    std::size_t unstaged_before = 0;
    std::chrono::steady_clock::time_point all_staged = {};
  };
  Staging staging_;
  std::thread thread_;
};

}  // namespace capstan::session
