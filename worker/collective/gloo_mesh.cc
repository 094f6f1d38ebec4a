#include "worker/collective/gloo_mesh.h"

#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <thread>

#include "worker/collective/gloo_pair.h"
#include "worker/collective/mesh_control.h"

// Gloo throws exceptions; none leaves this file. A Gloo wait with a timeout breaks every connection when the time is
// up. So the waits of a call have no timeout and are aborted instead, which breaks nothing: afterwards other ranks can
// still be asked whether they have begun the call.

namespace capstan::collective {
namespace {

using Buffer = gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr Tag kControlTag = ~Tag{0};  // not used by any call
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// Long waits probe the peer at this interval, because Gloo does not report that a connection broke in the middle of a
// message.
constexpr milliseconds kPulse{300};
constexpr Deadline kNever = Deadline::max();
constexpr const char* kNowhere = "127.0.0.1";  // where Gloo's own listeners are, which it does not need (gloo_pair.h)

enum class Answer : std::uint8_t { kNone, kHasBegun, kHasNot };

struct CallState {
  std::uint64_t number = 0;
  Deadline deadline = kNever;  // deadline of the current call
  bool is_under_way = false;
  bool is_watched = false;          // the deadline thread still has to interrupt the call's waits at the deadline
  std::uint64_t number_before = 0;  // `number` when the deadline thread last woke
};

// Each pair of ranks has three connections. The first carries payload to the higher rank, the second to the lower one,
// because Gloo's reading thread spins while another thread writes to the same connection. The third carries questions,
// answers and failures, which would come too late behind a long payload message.
enum Way : std::size_t { kUp = 0, kDown = 1, kPayloadWays = 2, kWords = 2, kWays = 3 };

// Returns the exception's text without the source location that Gloo puts in front.
std::string TextOf(const std::exception& failed) {
  const std::string text = failed.what();
  const std::size_t place = text.starts_with('[') ? text.find("] ") : text.npos;
  return place == text.npos ? text : text.substr(place + 2);
}

class GlooTransfer;

struct State {
  CallState call;
  std::vector<GlooTransfer*> transfers;
  std::optional<MeshFailure> cause;
  bool asking = false;
  std::array<Answer, kRanksMax> answers{};
  std::array<std::uint64_t, kRanksMax> received{};  // control messages received, by rank
  std::array<int, kRanksMax> under_way{};           // messages to and from each rank that are not done
  bool closing = false, closed = false;             // a thread has begun to close the connections; it has closed them
  Deadline keeper_wakes = kNever;
  std::array<Buffer*, kWays> ears{};  // the buffers in which listeners wait; null when not waiting
  bool stopping = false;
};

class GlooMesh : public Mesh {
 public:
  explicit GlooMesh(const MeshOptions& options) : options_(options) {}
  ~GlooMesh() override;

  Status Connect(Rendezvous* rendezvous, Deadline deadline);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::unique_ptr<Transfer> CreateTransfer() override;
  std::uint64_t Enter(Deadline deadline) override;
  void Leave() override {
    state_.With([](State& state) {
      state.call.deadline = kNever;
      state.call.is_under_way = false;
    });
  }
  void Abort() override { Conclude({Reason::kAborted, SetOf(rank()), {}}); }
  Status failure() override {
    const std::optional<MeshFailure> failure = state_.With([](State& state) { return state.cause; });
    return failure ? StatusOf(*failure, options_.name_of) : Status();
  }

  // Creates a Gloo buffer that spans all memory; an address is its own offset. So no message needs a buffer of its own.
  std::unique_ptr<Buffer> CreateWindow(Way way) {
    return contexts_[way]->createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max());
  }
  Way WayTo(int peer) const { return peer > rank() ? kUp : kDown; }
  Way WayFrom(int peer) const { return peer > rank() ? kDown : kUp; }
  void Add(GlooTransfer* transfer) {
    state_.With([&](State& state) { state.transfers.push_back(transfer); });
  }
  // Notes that a message to or from this rank begins (1) or is done (-1).
  void Count(int rank, int messages) {
    state_.With([&](State& state) { state.under_way[static_cast<std::size_t>(rank)] += messages; });
  }
  void Remove(GlooTransfer* transfer) {
    state_.With([&](State& state) { std::erase(state.transfers, transfer); });
  }
  bool IsOver() {
    return state_.With([](State& state) { return state.cause.has_value(); });
  }
  bool IsOverdue() {
    return state_.With([](State& state) { return state.call.deadline <= Clock::now(); });
  }
  // Sends a probe, which `rank` answers. Returns why the connection is broken; nullopt: the probe was sent.
  std::optional<std::string> Probe(int rank, Way way);
  std::uint64_t ReceivedFrom(int rank) {
    return state_.With([&](State& state) { return state.received[static_cast<std::size_t>(rank)]; });
  }
  // A rank counts as silent if more than this many checks in a row, one with each pulse, find nothing new from it.
  std::uint64_t silence() const { return static_cast<std::uint64_t>(options_.silence / kPulse) + 1; }
  // Ends the mesh: the deadline has passed while waiting for `peer`, or `peer` is silent, or the connection to it
  // broke. Finds out which ranks are missing, and returns the call's status.
  Status FindMissing(int peer, Reason reason, std::string why = {});
  // Returns the failure, after the connections are closed: nothing writes to a caller's memory any more.
  Status Ended() {
    Close();
    return failure();
  }

 private:
  // Control messages to one rank, and the Gloo buffers from which they are sent; each buffer refers to its message.
  struct ControlBuffers {
    std::array<Control, kKindsSentOnce> controls{};
    std::array<std::unique_ptr<Buffer>, kKindsSentOnce> buffers;
  };

  static RankSet SetOf(int rank) { return RankSet().set(static_cast<std::size_t>(rank)); }
  void Conclude(const MeshFailure& failure);
  bool Tell(int rank, const Control& control);
  void Ask(std::uint64_t call, const RankSet& but, RankSet* asked, RankSet* broken);
  void SendFailure(const MeshFailure& failure);
  void Close();
  void CloseConnections();
  void Listen(Way way);
  bool ListenTo(Way way, const std::vector<int>& speakers);
  void OnControl(int from, Way way, const Control& control);
  void Echo(int rank, Way way);
  void KeepDeadlines();
  void LookAfterWords();

  const MeshOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::array<std::shared_ptr<gloo::transport::Context>, kWays> contexts_;
  Guarded<State> state_;
  std::vector<int> others_;
  // By rank. The listener sends kAnswer, the thread that asks sends kAsk, and the thread that closes sends kFailure. So
  // no two threads use one buffer.
  std::vector<ControlBuffers> control_buffers_;
  Control probe_{ControlKind::kProbe}, here_{ControlKind::kHere};
  std::array<std::unique_ptr<Buffer>, kWays> probes_, echoes_;  // buffers on probe_ and here_
  std::array<std::thread, kWays> listeners_;
  std::thread keeper_;
  // Used by the deadline thread: which of `others_` it probes next (modulo their number), and whether the last probe
  // found that rank's control connection broken.
  std::size_t next_looked_for_ = 0;
  bool words_broke_ = false;
  Deadline next_look_{};
};

class GlooTransfer : public Transfer {
 public:
  explicit GlooTransfer(GlooMesh* mesh) : mesh_(mesh), windows_{mesh->CreateWindow(kUp), mesh->CreateWindow(kDown)} {
    mesh_->Add(this);
  }
  ~GlooTransfer() override { mesh_->Remove(this); }

  Status Send(int to, Tag tag, std::span<const std::byte> bytes) override {
    is_send_ = true;
    way_ = mesh_->WayTo(to);
    return Begin(to, [&] { window()->send(to, tag, reinterpret_cast<std::size_t>(bytes.data()), bytes.size()); });
  }
  Status Receive(int from, Tag tag, std::span<std::byte> bytes) override {
    is_send_ = false;
    way_ = mesh_->WayFrom(from);
    return Begin(from, [&] { window()->recv(from, tag, reinterpret_cast<std::size_t>(bytes.data()), bytes.size()); });
  }

  Status Wait() override {
    std::uint64_t received = 0;
    for (std::uint64_t unanswered = 0;;) {
      try {
        if (is_send_ ? window()->waitSend(nullptr, kForever) : window()->waitRecv(nullptr, kForever)) {
          mesh_->Count(peer_, -1);
          return {};
        }
      } catch (const std::exception& failed) {
        return mesh_->FindMissing(peer_, Reason::kLost, TextOf(failed));
      }
      if (mesh_->IsOver()) return mesh_->Ended();
      if (mesh_->IsOverdue()) return mesh_->FindMissing(peer_, Reason::kAbsent);
      // Counts probes instead of time, because this process itself may have been stopped meanwhile.
      const std::uint64_t now_received = mesh_->ReceivedFrom(peer_);
      unanswered = now_received == std::exchange(received, now_received) ? unanswered + 1 : 0;
      if (unanswered > mesh_->silence()) return mesh_->FindMissing(peer_, Reason::kSilent);
      for (const Way way : {way_, kWords}) {
        if (auto why = mesh_->Probe(peer_, way)) return mesh_->FindMissing(peer_, Reason::kLost, *std::move(why));
      }
    }
  }

  // Callable from any thread: makes Wait check again.
  void Interrupt() {
    for (const std::unique_ptr<Buffer>& window : windows_) {
      window->abortWaitSend();
      window->abortWaitRecv();
    }
  }

 private:
  Buffer* window() const { return windows_[way_].get(); }
  template <class F>
  Status Begin(int peer, const F& begin) {
    peer_ = peer;
    if (mesh_->IsOver()) return mesh_->Ended();
    mesh_->Count(peer_, 1);
    try {
      begin();
      return {};
    } catch (const std::exception& failed) {
      return mesh_->FindMissing(peer_, Reason::kLost, TextOf(failed));
    }
  }

  GlooMesh* const mesh_;
  const std::array<std::unique_ptr<Buffer>, kPayloadWays> windows_;
  Way way_ = kUp;
  bool is_send_ = false;
  int peer_ = 0;
};

void InterruptAll(const State& state) {
  for (GlooTransfer* transfer : state.transfers) transfer->Interrupt();
}

// -------------------------------------------------------------------------------------------------- forming the mesh

Status GlooMesh::Connect(Rendezvous* rendezvous, Deadline deadline) {
  for (int i = 0; i < size(); ++i) {
    if (i != rank()) others_.push_back(i);
  }
  const Deadline::duration time = deadline - Clock::now();
  CAPSTAN_ASSIGN_OR_RETURN(MemberSockets sockets, MemberSockets::Listen(options_.address));
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                           rendezvous->Exchange(rank(), sockets.address(), deadline));
  if (all.size() != static_cast<std::size_t>(size())) {
    return Invalid("the ranks' exchange of addresses gave " + std::to_string(all.size()) + " of them to " +
                   std::to_string(size()) + " ranks; start all workers with one number of ranks");
  }
  CAPSTAN_RETURN_IF_ERROR(sockets.Connect(options_, kWays, all, Clock::now() + time));
  try {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(kNowhere));
    for (std::size_t way = 0; way < kWays; ++way) {
      contexts_[way] = CreateGlooContext(device_, rank(), size(), &sockets, way);
    }
  } catch (const std::exception& failed) {
    return Unreachable("Gloo cannot use the connections: " + TextOf(failed));
  }
  control_buffers_.resize(static_cast<std::size_t>(size()));
  for (const int peer : others_) {
    ControlBuffers& buffers_of = control_buffers_[static_cast<std::size_t>(peer)];
    for (std::size_t i = 0; i < kKindsSentOnce; ++i) {
      buffers_of.buffers[i] = contexts_[kWords]->createUnboundBuffer(&buffers_of.controls[i], sizeof(Control));
    }
  }
  if (others_.empty()) return {};
  for (std::size_t way = 0; way < kWays; ++way) {
    probes_[way] = contexts_[way]->createUnboundBuffer(&probe_, sizeof probe_);
    echoes_[way] = contexts_[way]->createUnboundBuffer(&here_, sizeof here_);
  }
  for (const Way way : {kUp, kDown, kWords}) listeners_[way] = std::thread([this, way] { Listen(way); });
  keeper_ = std::thread([this] { KeepDeadlines(); });
  return {};
}

GlooMesh::~GlooMesh() {
  state_.Change([](State& state) {
    state.stopping = true;
    for (Buffer* ear : state.ears) {
      if (ear) ear->abortWaitRecv();
    }
  });
  for (std::thread& listener : listeners_) {
    if (listener.joinable()) listener.join();
  }
  if (keeper_.joinable()) keeper_.join();
  CloseConnections();  // before the memory that they read and write is freed
}

// --------------------------------------------------------------------------------------------------------- the calls

std::unique_ptr<Transfer> GlooMesh::CreateTransfer() { return std::make_unique<GlooTransfer>(this); }

std::uint64_t GlooMesh::Enter(Deadline deadline) {
  bool is_next = false;
  const std::uint64_t number = state_.With([&](State& state) {
    state.call.deadline = deadline;
    state.call.is_under_way = state.call.is_watched = true;
    is_next = deadline < state.keeper_wakes;
    return ++state.call.number;
  });
  if (is_next) state_.Change([](State&) {});  // wakes the deadline thread
  return number;
}

// The deadline thread wakes at the call's deadline, with every pulse, and when the mesh has failed. Enter wakes it only
// for an earlier deadline. After a failure this thread closes the connections if no other thread has started to.
void GlooMesh::KeepDeadlines() {
  pthread_setname_np(pthread_self(), "mesh-deadlines");
  const auto due = [](const State& state) { return state.call.is_watched ? state.call.deadline : kNever; };
  for (bool stopping = false; !stopping;) {
    const Deadline wake =
        state_.With([&](State& state) { return state.keeper_wakes = std::min(due(state), Clock::now() + kPulse); });
    const auto is_over = [](const State& state) { return state.cause && !state.closing; };
    state_.AwaitUntil(wake, [&](State& state) { return state.stopping || due(state) < wake || is_over(state); });
    stopping = state_.With([&](State& state) {
      const Deadline now = Clock::now();
      CallState& call = state.call;
      const bool stands = due(state) <= now || (call.is_under_way && call.number == call.number_before);
      call.number_before = call.number;
      call.is_watched = call.is_watched && call.deadline > now;
      if (stands) InterruptAll(state);
      return state.stopping;
    });
    LookAfterWords();
    if (state_.With(is_over)) Close();
  }
}

// Short calls send no probes, so they do not notice that a control connection broke. So while a call is under way, this
// probes one other rank with each pulse.
void GlooMesh::LookAfterWords() {
  if (IsOver() || Clock::now() < next_look_) return;
  if (!state_.With([](State& state) { return state.call.is_under_way; })) return;
  next_look_ = Clock::now() + kPulse;
  const int other = others_[next_looked_for_ % others_.size()];
  const std::optional<std::string> why = Probe(other, kWords);
  if (!why) ++next_looked_for_;
  // One failed probe is no failure yet: a rank that has finished its last call may have closed its connections
  // normally. Then this rank's call ends before the next probe.
  if (std::exchange(words_broke_, why.has_value()) && why) (void)FindMissing(other, Reason::kLost, *why).ok();
}

// ------------------------------------------------------------------------------------------------------- the failure

Status GlooMesh::FindMissing(int peer, Reason reason, std::string why) {
  std::uint64_t call = 0;
  const bool mine = state_.With([&](State& state) {
    call = state.call.number;
    return !std::exchange(state.asking, true);
  });
  const auto is_over = [](State& state) { return state.cause.has_value(); };
  // A rank that closes its connections after a failure sends the failure first, so wait for that message.
  if (reason == Reason::kLost) state_.AwaitUntil(Clock::now() + options_.failure_send, is_over);
  if (!mine) state_.AwaitUntil(kNever, is_over);  // the thread that asks will conclude
  if (IsOver()) return Ended();
  RankSet lost = reason == Reason::kAbsent ? RankSet() : SetOf(peer), asked, broken;
  Ask(call, lost, &asked, &broken);
  RankSet needed, silent, late;
  state_.AwaitUntil(Clock::now() + options_.answer, [&](State& state) {
    silent.reset();
    for (std::size_t i = 0; i < kRanksMax; ++i) {
      needed.set(i, state.under_way[i] > 0);
      silent.set(i, asked.test(i) && state.answers[i] == Answer::kNone);
      late.set(i, state.answers[i] == Answer::kHasNot);
    }
    return state.cause || silent.none();
  });
  lost |= broken & needed;
  late |= broken & ~needed;  // one that left after its last call has not begun this one
  if (lost.any())
    Conclude({reason == Reason::kSilent ? reason : Reason::kLost, lost | silent, std::move(why)});
  else if ((silent | late).none())
    Conclude({Reason::kStalled, SetOf(peer), {}});
  else
    Conclude({Reason::kAbsent, silent | late, {}});
  return Ended();
}

// Asks the other ranks, except `but`, whether they have begun the call. `broken`: the ranks to which no question can be
// sent.
void GlooMesh::Ask(std::uint64_t call, const RankSet& but, RankSet* asked, RankSet* broken) {
  for (const int other : others_) {
    const auto i = static_cast<std::size_t>(other);
    if (!but.test(i)) (Tell(other, {ControlKind::kAsk, call, {}, {}}) ? asked : broken)->set(i);
  }
}

void GlooMesh::Conclude(const MeshFailure& failure) {
  state_.Change([&](State& state) {
    if (!state.cause) state.cause = failure;
    InterruptAll(state);
  });
}

// Called after a failure. Returns when this or another thread has closed the connections.
void GlooMesh::Close() {
  MeshFailure failure;
  const bool mine = state_.With([&](State& state) {
    failure = *state.cause;
    return !std::exchange(state.closing, true);
  });
  if (mine) {
    SendFailure(failure);
    CloseConnections();
    state_.Change([](State& state) { state.closed = true; });
  }
  state_.AwaitUntil(kNever, [](State& state) { return state.closed; });
}

// Sends the failure to the other ranks. A rank that was told of the failure sends it too, before it closes, so that
// ranks that find their connection to it broken know the reason.
void GlooMesh::SendFailure(const MeshFailure& failure) {
  const auto is_there = [&](int other) { return !failure.missing.test(static_cast<std::size_t>(other)); };
  std::vector<int> informed;
  for (const int other : others_) {
    if (Tell(other, ControlOf(failure))) informed.push_back(other);
  }
  std::stable_partition(informed.begin(), informed.end(), is_there);  // missing ranks may never read it
  const Deadline start = Clock::now();
  for (const int other : informed) {
    const Deadline deadline = start + (is_there(other) ? options_.answer : options_.failure_send);
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    const ControlBuffers& buffers_of = control_buffers_[static_cast<std::size_t>(other)];
    try {
      buffers_of.buffers[static_cast<std::size_t>(ControlKind::kFailure)]->waitSend(nullptr,
                                                                                    std::max(milliseconds(1), left));
    } catch (const std::exception&) {
      continue;  // the other side has closed already, or will notice when this side closes
    }
  }
}

// Closes the connections of each context by a Gloo wait that times out. Then Gloo stops writing to memory.
void GlooMesh::CloseConnections() {
  for (const auto& context : contexts_) {
    if (!context) continue;
    try {
      std::byte nothing{};
      context->createUnboundBuffer(&nothing, 1)->waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
      continue;
    }
  }
}

// -------------------------------------------------------------------------------------------------- control messages

// Sends a control message. False when the connection is broken.
bool GlooMesh::Tell(int rank, const Control& control) {
  ControlBuffers& buffers_of = control_buffers_[static_cast<std::size_t>(rank)];
  const auto place = static_cast<std::size_t>(control.kind);
  buffers_of.controls[place] = control;
  try {
    buffers_of.buffers[place]->send(rank, kControlTag, 0, sizeof(Control));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<std::string> GlooMesh::Probe(int rank, Way way) {
  try {
    probes_[way]->send(rank, kControlTag, 0, sizeof(Control));
    return std::nullopt;
  } catch (const std::exception& failed) {
    return TextOf(failed);
  }
}

// Answers a probe. If the connection is broken, the listener notices.
void GlooMesh::Echo(int rank, Way way) {
  try {
    echoes_[way]->send(rank, kControlTag, 0, sizeof(Control));
  } catch (const std::exception&) {
    return;
  }
}

// Receives the other ranks' messages on the control tag, on one of the three connections to each (`way`). If a
// connection breaks, its rank is removed from the list, so that the other ranks are still received.
void GlooMesh::Listen(Way way) {
  pthread_setname_np(pthread_self(), "mesh-listener");
  for (std::vector<int> speakers = others_; !speakers.empty();) {
    if (ListenTo(way, speakers)) return;
    // Gloo does not report which connection broke.
    std::erase_if(speakers, [&](int other) { return Probe(other, way).has_value(); });
  }
}

// Receives control messages. Returns true when the mesh stops, and false when a connection broke.
bool GlooMesh::ListenTo(Way way, const std::vector<int>& speakers) {
  Control received{};
  const std::unique_ptr<Buffer> ear = contexts_[way]->createUnboundBuffer(&received, sizeof received);
  bool stopping = state_.With([&](State& state) {
    state.ears[way] = ear.get();
    return state.stopping;
  });
  try {
    for (int from = 0; !stopping;) {
      ear->recv(speakers, kControlTag, 0, sizeof(Control));
      stopping = !ear->waitRecv(&from, kForever);
      if (!stopping) OnControl(from, way, received);
    }
  } catch (const std::exception&) {
    stopping = false;
  }
  state_.With([way](State& state) { state.ears[way] = nullptr; });
  return stopping;
}

void GlooMesh::OnControl(int from, Way way, const Control& control) {
  const auto sender = static_cast<std::size_t>(from);
  state_.With([&](State& state) { ++state.received[sender]; });
  switch (control.kind) {
    case ControlKind::kAsk: {
      // If this rank is in an earlier call, it counts as present too: another rank delays it.
      const bool is_there =
          state_.With([&](State& state) { return state.call.number >= control.number || state.call.is_under_way; });
      Tell(from, {ControlKind::kAnswer, is_there, {}, {}});
      break;
    }
    case ControlKind::kAnswer:
      state_.Change(
          [&](State& state) { state.answers[sender] = control.number != 0 ? Answer::kHasBegun : Answer::kHasNot; });
      break;
    case ControlKind::kFailure: Conclude(FailureOf(control, size())); break;
    case ControlKind::kProbe: Echo(from, way); break;
    case ControlKind::kHere: break;
  }
}

}  // namespace

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const MeshOptions& options, Rendezvous* rendezvous, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(CheckRanks(options));
  auto mesh = std::make_shared<GlooMesh>(options);
  CAPSTAN_RETURN_IF_ERROR(mesh->Connect(rendezvous, deadline));
  return std::shared_ptr<Mesh>(std::move(mesh));
}

}  // namespace capstan::collective
