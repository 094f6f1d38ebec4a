#include "worker/session/session_loop.h"

#include <pthread.h>
#include <sys/random.h>

#include <cstring>

#include "common/base/process_address.h"
#include "common/flight/recorded_transport.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/weights.h"
#include "common/wire/permissions.h"

namespace capstan::session {

namespace {

constexpr int kCommandsAtOnce = 4;
constexpr Instant kTick = std::chrono::milliseconds(50);
constexpr Instant kReportEvery = std::chrono::seconds(5);

// A visitor for std::visit, made of one function for each alternative of the variant.
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<std::unique_ptr<SessionLoop>> SessionLoop::Start(const Options& options) {
  std::unique_ptr<SessionLoop> loop(new SessionLoop(options));
  Result<PeerId> coordinator = loop->transport_->Connect(EndpointOf(options.coordinator), Role::kCoordinator);
  if (!coordinator.ok()) return coordinator.status();
  SessionOptions session;
  session.name = options.worker;
  if (getrandom(&session.nonce, sizeof session.nonce, 0) != sizeof session.nonce) {
    return Unsupported("the system gives no random numbers (getrandom)");
  }
  session.coordinator = *coordinator;
  loop->team_ = std::make_unique<TeamMember>(*coordinator, session.nonce);
  session.silence_limit = options.silence_limit;
  session.rank = options.rank;
  session.ranks = options.ranks;
  session.machine = options.machine;
  session.metrics = options.metrics;
  session.connect = [raw = loop.get()](const std::string& endpoint) { return raw->shards_.PeerOf(endpoint); };
  session.disconnect = [raw = loop.get()](PeerId peer) { raw->shards_.Forget(peer); };
  session.time_spent = [raw = loop.get()] { return raw->Spent(); };
  loop->session_ = std::make_unique<Session>(std::move(session));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

SessionLoop::SessionLoop(const Options& options)
    : options_(options),
      transport_(MakeTransport()),
      shards_(transport_.get()),
      flight_(options.flight),
      notices_([this](const Notice& notice) {
        flight_.Log(notice, Now());
        if (options_.on_notice) options_.on_notice(notice.text);
      }) {}

std::unique_ptr<Transport> SessionLoop::MakeTransport() {
  TransportOptions transport;
  transport.keys = options_.keys;
  transport.memory = options_.memory;
  transport.coalesces = true;
  transport.on_note = options_.on_notice;
  transport.place = [this](PeerId from, const Principal& sender, const Header& header, std::size_t bytes) {
    return PlaceOf(from, sender, header, bytes);
  };
  return RecordTransport(CreateZmqTransport(transport, &counters_), options_.flight, Receiver::kWorker);
}

SessionLoop::~SessionLoop() {
  stopping_.store(true);
  transport_->Wake();
  if (thread_.joinable()) thread_.join();
}

TimeSpent SessionLoop::Spent() const {
  TimeSpent spent = waits_.Read();
  if (options_.input_seconds) spent.input_us = static_cast<std::uint64_t>(options_.input_seconds() * 1e6);
  return spent;
}

void SessionLoop::Send(Command command) {
  if (commands_.Push(std::move(command)).ok()) transport_->Wake();
}

void SessionLoop::Run() {
  pthread_setname_np(pthread_self(), "capstan-session");
  Instant next_tick{};
  bool backlog = false;
  while (!stopping_.load()) {
    const Instant before = Now();
    if (before >= next_tick) {
      next_tick = before + kTick;
      session_->Tick(before, &out_);
      team_->Tick(session_->id(), before, &out_);
      notices_.Look(before);
      ReportWaiting(before);
      PublishCounters();
      SendOut();
    }
    transport_->Poll(backlog ? Instant{} : next_tick - before,
                     [&](PeerId from, const Principal& sender, Message message) {
                       if (!MaySend(sender, message.header, Receiver::kWorker)) return;
                       session_->Handle(from, message, Now(), &out_);
                       team_->Handle(from, message, session_->id(), Now(), &out_);
                       SendOut();
                       NoteStaged();
                       HandOverEvents();
                     });
    backlog = DispatchSome();
    NoteStaged();
    HandOverEvents();
  }
  while (std::optional<Command> command = commands_.TryPop()) Dispatch(*command, Now());  // the last command is a Leave
  transport_->Poll({}, [](PeerId, const Principal&, const Message&) {});                  // sends it
  notices_.Flush();
  events_.Close();
}

// Handles a few commands, so that arriving messages need not wait until all pushes of a gradient are handled. Returns
// false if no command is left.
bool SessionLoop::DispatchSome() {
  for (int i = 0; i < kCommandsAtOnce; ++i) {
    std::optional<Command> command = commands_.TryPop();
    if (!command) return false;
    Dispatch(*command, Now());
  }
  return true;
}

void SessionLoop::Dispatch(Command& command, Instant now) {
  Session& session = *session_;
  std::visit(Overloaded{
                 [&](DeclareCommand& declare) { Declare(declare, now); },
                 [&](ReadyCommand&) { session.Ready(now, &out_); },
                 [&](HyperParametersCommand& hyper) { session.SetHyperParameters(std::move(hyper.groups)); },
                 [&](PushCommand& push) { session.Push(std::move(push), now, &out_); },
                 [&](EndSlotCommand& end) {
                   session.EndSlot(end.round, std::move(end.report), std::move(end.program_state), now, &out_);
                 },
                 [&](UploadCommand& upload) {
                   session.UploadVersion(upload.round, std::move(upload.arrays), upload.blocks, now, &out_);
                 },
                 [&](SettleCommand& settled) { session.Settle(std::move(settled), now, &out_); },
                 [&](GroupCommand& group) {
                   session.ReportGroup(group.generation, group.state, std::move(group.text), now, &out_);
                 },
                 [&](ReleaseCommand& release) { session.ReleasePushes(release.round, now, &out_); },
                 [&](SumsMadeCommand& made) { session.SumsMade(made.round, now); },
                 [&](MachineGroupCommand& group) {
                   session.ReportMachineGroup(group.epoch, group.state, std::move(group.text), now, &out_);
                 },
                 [&](BarrierCommand&) { session.Barrier(now, &out_); },
                 [&](FormTeamCommand& form) {
                   team_->Form({form.rank, form.ranks, form.wish}, session.id(), now, &out_);
                 },
                 [&](CallTeamCommand& call) {
                   team_->Call(std::move(call.what), std::move(call.given), session.id(), now, &out_);
                 },
                 [&](LeaveCommand& leave) {
                   team_->Stop();
                   session.Leave(leave.reason, &out_);
                 },
             },
             command);
  SendOut();
}

void SessionLoop::Declare(DeclareCommand& command, Instant now) {
  Result<Catalog> catalog = Catalog::Create(command.declaration.catalog);
  application_ = {catalog.ok() ? std::make_unique<Catalog>(std::move(catalog).value()) : nullptr,
                  command.weights,
                  command.narrow,
                  std::move(command.states),
                  command.declaration.encoding,
                  std::move(command.on_machine_group),
                  std::move(command.on_step_done)};
  session_->Declare(std::move(command.declaration), now, &out_);
}

void SessionLoop::SendOut() {
  // If the transport rejects a message, for example because a queue is full, the session repeats it like a lost one.
  for (const Envelope& envelope : out_.envelopes) {
    if (envelope.to.value != 0) (void)transport_->Send(envelope.to, envelope.message).ok();
  }
  for (const Notice& notice : out_.notices) notices_.Take(notice, Now());
  out_.Clear();
}

// Returns the application's memory for a block of an array. The session hands over only arrays that it pulled.
std::byte* SessionLoop::PlaceOf(BlockIndex block, std::uint32_t array) const {
  const Block& shape = application_.catalog->blocks()[block];
  if (shape.EncodingIn(application_.encoding) != Encoding::kFp32)
    return reinterpret_cast<std::byte*>(application_.narrow + shape.flat_offset);
  float* const values = array == 0 || array == kMeanGradient ? application_.weights : application_.states.at(array - 1);
  return reinterpret_cast<std::byte*>(values + shape.flat_offset);
}

std::byte* SessionLoop::PlaceOf(PeerId from, const Principal& sender, const Header& header, std::size_t bytes) const {
  if (!MaySend(sender, header, Receiver::kWorker) || !session_->HandsOver(from, header, bytes)) return nullptr;
  const Weights& weights = *header.As<Weights>();
  return PlaceOf(weights.block, weights.array);
}

void SessionLoop::HandOverEvents() {
  for (Session::Event& event : session_->TakeEvents()) {
    NoteEvent(event);
    if (std::holds_alternative<Session::Joined>(event)) team_->Rejoined(session_->id(), Now(), &out_);
    if (std::holds_alternative<Session::Finished>(event) || std::holds_alternative<Session::Failed>(event))
      team_->Stop();
    std::visit(
        [&](auto& body) {
          using Body = std::decay_t<decltype(body)>;
          if constexpr (std::is_same_v<Body, Session::WeightsArrived>) {
            std::byte* const place = PlaceOf(body.block, body.array);
            if (body.payload.data != place) std::memcpy(place, body.payload.data, body.payload.size);
            const bool is_state = body.array != 0 && body.array != kMeanGradient;
            if (!is_state) (void)events_.Push(BlockArrived{body.block, std::move(body.program_state)}).ok();
          } else if constexpr (std::is_same_v<Body, Session::MachineGrouping>) {
            if (application_.on_machine_group) application_.on_machine_group(body);
          } else if constexpr (std::is_same_v<Body, Session::StepDone>) {
            if (application_.on_step_done) application_.on_step_done(body);
          } else {
            (void)events_.Push(std::move(body)).ok();
          }
        },
        event);
  }
  SendOut();  // what the team sends after a Joined
  for (TeamEvent& event : team_->TakeEvents()) {
    NoteEvent(event);
    std::visit([this](auto& body) { (void)events_.Push(std::move(body)).ok(); }, event);
  }
}

// Notes an event in the flight recorder, except those of every step.
void SessionLoop::NoteEvent(const Session::Event& event) {
  const auto note = [&](std::string_view text) {
    flight_.State(text, Now(), session_->step().value, session_->generation());
  };
  std::visit(Overloaded{
                 [&](const Session::JobFile&) { note("has the job file"); },
                 [&](const Session::Joined&) { note("joined"); },
                 [&](const Session::WorkReady&) { note("computes"); },
                 [&](const Session::BarrierWaits&) { note("waits in a barrier"); },
                 [&](const Session::BarrierPassed&) { note("has passed a barrier"); },
                 [&](const Session::GroupKnown&) { note("knows its group"); },
                 [&](const Session::Finished&) { note("has finished"); },
                 [&](const Session::Failed& failed) { note("failed: " + failed.status.message()); },
                 [](const auto&) {},
             },
             event);
}

void SessionLoop::NoteEvent(const TeamEvent& event) {
  const auto note = [&](std::string_view text) {
    flight_.State(text, Now(), session_->step().value, session_->generation());
  };
  if (std::holds_alternative<TeamFormed>(event)) note("is in a team");
  if (const auto* failed = std::get_if<TeamFailed>(&event)) note("has lost its team: " + failed->status.message());
}

void SessionLoop::ReportWaiting(Instant now) {
  std::string who = team_->WaitingFor();
  if (who.empty() || session_->id().value == 0) who = session_->WaitingFor();
  if (who != waiting_for_) {  // the text names the version too, so any progress restarts the timer
    waiting_for_ = std::move(who);
    waiting_since_ = now;
    next_report_ = now + kReportEvery;
  }
  flight_.Waits([&] { return waiting_for_; }, now, session_->step().value, session_->generation());
  if (waiting_for_.empty() || now < next_report_ || !options_.on_notice) return;
  next_report_ = now + kReportEvery;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - waiting_since_).count();
  options_.on_notice("waiting " + std::to_string(seconds) + " s for " + waiting_for_);
}

// Notes the time at which the last unacknowledged push was acknowledged. This is called before a message's events are
// handed over, so counters() has a round's time before the application receives the next round.
void SessionLoop::NoteStaged() {
  const std::size_t unstaged = session_->links().unstaged_pushes();
  if (unstaged == 0 && staging_.unstaged_before > 0) {
    staging_.all_staged = std::chrono::steady_clock::now();
    PublishCounters();
  }
  staging_.unstaged_before = unstaged;
}

void SessionLoop::PublishCounters() {
  const TransportCounters& counters = counters_;
  ClientCounters now;
  now.messages_in = counters.messages_in;
  now.messages_out = counters.messages_out;
  now.payload_messages_in = counters.payload_messages_in;
  now.payload_messages_out = counters.payload_messages_out;
  now.payload_bytes_in = counters.payload_bytes_in;
  now.payload_bytes_out = counters.payload_bytes_out;
  now.header_bytes_in = counters.header_bytes_in;
  now.header_bytes_out = counters.header_bytes_out;
  now.decode_errors = counters.decode_errors + counters.extra_frames + counters.foreign_peers + counters.payloads_lost;
  now.sends_blocked = counters.sends_blocked;
  now.sends_unreachable = counters.sends_unreachable;
  now.connections_made = counters.connections_made;
  now.connections_lost = counters.connections_lost;
  now.unstaged_pushes = session_->links().unstaged_pushes();
  now.unsent_pushes = session_->links().unsent_pushes();
  now.all_staged = staging_.all_staged;
  published_.Publish(now);
}

}  // namespace capstan::session
