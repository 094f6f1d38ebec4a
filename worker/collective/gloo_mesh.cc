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

#include "worker/collective/mesh_control.h"
#include "worker/collective/packed_addresses.h"

// Gloo throws; nothing of that leaves this file. Its waits with a time limit break every connection when it passes,
// so waits here have none: they are aborted, which breaks nothing, and then ranks can still be asked who is there.

namespace capstan::collective {
namespace {

using Buffer = gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr Tag kControlTag = ~Tag{0};  // of no group's call
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// Gloo tells nobody that a connection broke in the middle of his message, so long waits look up this often.
constexpr milliseconds kPulse{300};
constexpr Deadline kNever = Deadline::max();

enum class Answer : std::uint8_t { kNone, kHasBegun, kHasNot };

struct CallState {
  std::vector<int> members;
  std::uint64_t number = 0;
  Deadline deadline = kNever;  // of the call that is under way
  bool is_under_way = false;
  bool is_watched = false;          // by the keeper: the deadline has not interrupted its waits yet
  std::uint64_t number_before = 0;  // at the last pulse
};

// Three connections of each two ranks: payload to higher ranks goes through the first, to lower ones through the second.
// Gloo keeps the thread that reads from a connection spinning while another one writes to it. What ranks say goes through
// the third: behind a long message the answer of a rank that is there would come too late.
enum Way : std::size_t { kUp = 0, kDown = 1, kPayloadWays = 2, kWords = 2, kWays = 3 };

// Without the place in Gloo's sources that its messages begin with.
std::string TextOf(const std::exception& failed) {
  const std::string text = failed.what();
  const std::size_t place = text.starts_with('[') ? text.find("] ") : text.npos;
  return place == text.npos ? text : text.substr(place + 2);
}

class GlooTransfer;

struct State {
  std::array<CallState, kGroupsMax> calls;
  std::vector<GlooTransfer*> transfers;
  std::optional<Verdict> verdict;
  bool asking = false;
  std::array<Answer, kRanksMax> answers{};
  std::array<std::uint64_t, kRanksMax> heard{};  // how often something was, by rank
  bool closing = false, closed = false;          // the connections
  Deadline keeper_wakes = kNever;
  std::array<Buffer*, kWays> ears{};  // the listeners', while they listen
  bool stopping = false;
};

class GlooMesh : public Mesh {
 public:
  explicit GlooMesh(const GlooMeshOptions& options) : options_(options) {}
  ~GlooMesh() override;

  Status Connect(Rendezvous* rendezvous, Deadline deadline);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  void OpenGroup(GroupIndex group, std::vector<int> members) override {
    state_.With([&](State& state) { state.calls[group].members = std::move(members); });
  }
  std::unique_ptr<Transfer> CreateTransfer(GroupIndex group) override;
  std::uint64_t Enter(GroupIndex group, Deadline deadline) override;
  void Leave(GroupIndex group) override {
    state_.With([&](State& state) {
      state.calls[group].deadline = kNever;
      state.calls[group].is_under_way = false;
    });
  }
  void Abort() override { Conclude({Reason::kAborted, SetOf(rank()), {}}); }
  Status failure() override {
    const std::optional<Verdict> verdict = state_.With([](State& state) { return state.verdict; });
    return verdict ? StatusOf(*verdict, options_.name_of) : Status();
  }

  // On all memory, with addresses for offsets: then nothing is allocated for a message.
  std::unique_ptr<Buffer> CreateWindow(Way way) {
    return contexts_[way]->createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max());
  }
  Way WayTo(int peer) const { return peer > rank() ? kUp : kDown; }
  Way WayFrom(int peer) const { return peer > rank() ? kDown : kUp; }
  void Add(GlooTransfer* transfer) {
    state_.With([&](State& state) { state.transfers.push_back(transfer); });
  }
  void Remove(GlooTransfer* transfer) {
    state_.With([&](State& state) { std::erase(state.transfers, transfer); });
  }
  bool IsOver() {
    return state_.With([](State& state) { return state.verdict.has_value(); });
  }
  bool IsOverdue(GroupIndex group) {
    return state_.With([&](State& state) { return state.calls[group].deadline <= Clock::now(); });
  }
  // Why a connection does not stand; nothing where it does. Somebody at its other end answers.
  std::optional<std::string> Probe(int rank, Way way);
  std::uint64_t HeardOf(int rank) {
    return state_.With([&](State& state) { return state.heard[static_cast<std::size_t>(rank)]; });
  }
  // So many questions that nobody answers are enough.
  std::uint64_t silence() const { return static_cast<std::uint64_t>(options_.silence / kPulse) + 1; }
  // What a call returns when the deadline has passed in waiting for `peer`, or the connection to it broke.
  Status TakeRoll(GroupIndex group, int peer, Reason reason, std::string why = {});
  // The failure; the connections are closed, so nothing writes to anybody's memory any more.
  Status Ended() {
    Close();
    return failure();
  }

 private:
  // What is said to one rank, and its memory.
  struct Outbox {
    std::array<Control, kSayings> controls{};
    std::array<std::unique_ptr<Buffer>, kSayings> buffers;
  };

  static RankSet SetOf(int rank) { return RankSet().set(static_cast<std::size_t>(rank)); }
  Status ConnectTo(int peer, const std::string& packed);
  void Conclude(const Verdict& verdict);
  bool Tell(int rank, const Control& control);
  RankSet Ask(GroupIndex group, std::uint64_t call, const RankSet& but, RankSet* asked);
  void SayFarewell(const Verdict& verdict);
  void Close();
  void CloseConnections();
  void Listen(Way way);
  bool ListenTo(Way way, const std::vector<int>& speakers);
  void Hear(int from, Way way, const Control& control);
  void Echo(int rank, Way way);
  void KeepDeadlines();
  void LookAfterWords();

  const GlooMeshOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::array<std::shared_ptr<gloo::transport::Context>, kWays> contexts_;
  Guarded<State> state_;
  std::vector<int> others_;
  std::vector<Outbox> outboxes_;  // by rank; kAnswer belongs to the listener, the others to who asks and who closes
  Control probe_{Say::kProbe}, here_{Say::kHere};
  std::array<std::unique_ptr<Buffer>, kWays> probes_, echoes_;  // of these two
  std::array<std::thread, kWays> listeners_;
  std::thread keeper_;
  // The keeper's: whom it looks for next, and whether his connection of words did not stand at the last look.
  std::size_t next_looked_for_ = 0;
  bool words_broke_ = false;
  Deadline next_look_{};
};

class GlooTransfer : public Transfer {
 public:
  GlooTransfer(GlooMesh* mesh, GroupIndex group)
      : mesh_(mesh), group_(group), windows_{mesh->CreateWindow(kUp), mesh->CreateWindow(kDown)} {
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
    std::uint64_t heard = 0;
    for (std::uint64_t unanswered = 0;;) {
      try {
        if (is_send_ ? window()->waitSend(nullptr, kForever) : window()->waitRecv(nullptr, kForever)) return {};
      } catch (const std::exception& failed) {
        return mesh_->TakeRoll(group_, peer_, Reason::kLost, TextOf(failed));
      }
      if (mesh_->IsOver()) return mesh_->Ended();
      if (mesh_->IsOverdue(group_)) return mesh_->TakeRoll(group_, peer_, Reason::kAbsent);
      // Not by the time that has passed: this process may have been stopped itself.
      const std::uint64_t now_heard = mesh_->HeardOf(peer_);
      unanswered = now_heard == std::exchange(heard, now_heard) ? unanswered + 1 : 0;
      if (unanswered > mesh_->silence()) return mesh_->TakeRoll(group_, peer_, Reason::kSilent);
      for (const Way way : {way_, kWords}) {
        if (auto why = mesh_->Probe(peer_, way)) return mesh_->TakeRoll(group_, peer_, Reason::kLost, *std::move(why));
      }
    }
  }

  // From any thread: Wait looks up.
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
    try {
      begin();
      return {};
    } catch (const std::exception& failed) {
      return mesh_->TakeRoll(group_, peer_, Reason::kLost, TextOf(failed));
    }
  }

  GlooMesh* const mesh_;
  const GroupIndex group_;
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
  std::vector<std::string> addresses;  // where each of the others finds this rank, by rank and way
  try {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(options_.address.c_str()));
    for (auto& context : contexts_) {
      context = device_->createContext(rank(), size());
      // Gloo waits five times as long for a connection.
      context->setTimeout(std::max(milliseconds(1), std::chrono::floor<milliseconds>(deadline - Clock::now()) / 5));
    }
    for (const int peer : others_) {
      for (auto& context : contexts_) {
        const std::vector<char> bytes = context->createPair(peer)->address().bytes();
        addresses.emplace_back(bytes.begin(), bytes.end());
      }
    }
  } catch (const std::exception& failed) {
    return Unreachable("cannot listen at \"" + options_.address + "\": " + failed.what() +
                       "; give an address of this machine that the other ranks can reach");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                           rendezvous->Exchange(rank(), PackAddresses(addresses), deadline));
  if (all.size() != static_cast<std::size_t>(size())) {
    return Invalid("the ranks' exchange of addresses gave " + std::to_string(all.size()) + " of them to " +
                   std::to_string(size()) + " ranks; start all workers with one number of ranks");
  }
  for (const int peer : others_) CAPSTAN_RETURN_IF_ERROR(ConnectTo(peer, all[static_cast<std::size_t>(peer)]));
  outboxes_.resize(static_cast<std::size_t>(size()));
  for (const int peer : others_) {
    Outbox& outbox = outboxes_[static_cast<std::size_t>(peer)];
    for (std::size_t i = 0; i < kSayings; ++i) {
      outbox.buffers[i] = contexts_[kWords]->createUnboundBuffer(&outbox.controls[i], sizeof(Control));
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

Status GlooMesh::ConnectTo(int peer, const std::string& packed) {
  const std::string whom = NamesOf(SetOf(peer), options_.name_of);
  const Result<std::vector<std::string>> addresses = UnpackAddresses(packed, kWays * others_.size());
  if (!addresses.ok()) {
    return Invalid(whom + ": " + addresses.status().message() + " of " + std::to_string(others_.size()) +
                   " ranks; start all workers with one build and one number of ranks");
  }
  const auto place = static_cast<std::size_t>(rank() < peer ? rank() : rank() - 1);
  try {
    for (std::size_t way = 0; way < kWays; ++way) {
      const std::string& mine = (*addresses)[kWays * place + way];
      contexts_[way]->getPair(peer)->connect({mine.begin(), mine.end()});
    }
    return {};
  } catch (const std::exception& failed) {
    return Unreachable("cannot connect to " + whom + ": " + failed.what() + "; see that it runs and can be reached");
  }
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
  CloseConnections();  // before what they read from and write to goes
}

// --------------------------------------------------------------------------------------------------------- the calls

std::unique_ptr<Transfer> GlooMesh::CreateTransfer(GroupIndex group) {
  return std::make_unique<GlooTransfer>(this, group);
}

std::uint64_t GlooMesh::Enter(GroupIndex group, Deadline deadline) {
  bool is_next = false;
  const std::uint64_t number = state_.With([&](State& state) {
    state.calls[group].deadline = deadline;
    state.calls[group].is_under_way = state.calls[group].is_watched = true;
    is_next = deadline < state.keeper_wakes;
    return ++state.calls[group].number;
  });
  if (is_next) state_.Change([](State&) {});  // the keeper looks again
  return number;
}

// Wakes at the first deadline that was known when it went to rest, later ones need no waking; with every pulse; and with
// the verdict, after which it closes the connections where nobody has begun to.
void GlooMesh::KeepDeadlines() {
  pthread_setname_np(pthread_self(), "mesh-deadlines");
  const auto first = [](const State& state) {
    Deadline earliest = kNever;
    for (const CallState& call : state.calls) {
      if (call.is_watched) earliest = std::min(earliest, call.deadline);
    }
    return earliest;
  };
  for (bool stopping = false; !stopping;) {
    const Deadline wake =
        state_.With([&](State& state) { return state.keeper_wakes = std::min(first(state), Clock::now() + kPulse); });
    const auto is_over = [](const State& state) { return state.verdict && !state.closing; };
    state_.AwaitUntil(wake, [&](State& state) { return state.stopping || first(state) < wake || is_over(state); });
    stopping = state_.With([&](State& state) {
      const Deadline now = Clock::now();
      bool some_stand = first(state) <= now;
      for (CallState& call : state.calls) {
        some_stand = some_stand || (call.is_under_way && call.number == call.number_before);
        call.number_before = call.number;
        call.is_watched = call.is_watched && call.deadline > now;
      }
      if (some_stand) InterruptAll(state);
      return state.stopping;
    });
    LookAfterWords();
    if (state_.With(is_over)) Close();
  }
}

// Calls that never stand for long do not find out that the connection of words broke. With each pulse one other member of
// a call that is under way is looked for.
void GlooMesh::LookAfterWords() {
  if (IsOver() || Clock::now() < next_look_) return;
  GroupIndex group = 0;
  std::vector<int> members = state_.With([&](State& state) {
    while (group < kGroupsMax && !state.calls[group].is_under_way) ++group;
    return group < kGroupsMax ? state.calls[group].members : std::vector<int>();
  });
  std::erase(members, rank());
  if (members.empty()) return;
  next_look_ = Clock::now() + kPulse;
  const int member = members[next_looked_for_ % members.size()];
  const std::optional<std::string> why = Probe(member, kWords);
  if (!why) ++next_looked_for_;
  // A member that has ended its last call may be gone in good order: then this call ends by the next look.
  if (std::exchange(words_broke_, why.has_value()) && why) (void)TakeRoll(group, member, Reason::kLost, *why).ok();
}

// ------------------------------------------------------------------------------------------------------- the failure

Status GlooMesh::TakeRoll(GroupIndex group, int peer, Reason reason, std::string why) {
  std::uint64_t call = 0;
  const bool mine = state_.With([&](State& state) {
    call = state.calls[group].number;
    return !std::exchange(state.asking, true);
  });
  const auto is_over = [](State& state) { return state.verdict.has_value(); };
  // A rank that knows why it closes its connections has said so before.
  if (reason == Reason::kLost) state_.AwaitUntil(Clock::now() + options_.farewell, is_over);
  if (!mine) state_.AwaitUntil(kNever, is_over);  // who asks concludes
  if (IsOver()) return Ended();
  RankSet asked;
  RankSet lost = Ask(group, call, reason == Reason::kAbsent ? RankSet() : SetOf(peer), &asked);
  RankSet silent, late;
  state_.AwaitUntil(Clock::now() + options_.answer, [&](State& state) {
    silent.reset();
    for (std::size_t i = 0; i < kRanksMax; ++i) {
      silent.set(i, asked.test(i) && state.answers[i] == Answer::kNone);
      late.set(i, state.answers[i] == Answer::kHasNot);
    }
    return state.verdict || silent.none();
  });
  if (lost.any())
    Conclude({reason == Reason::kSilent ? reason : Reason::kLost, lost | silent, std::move(why)});
  else if ((silent | late).none())
    Conclude({Reason::kStalled, SetOf(peer), {}});
  else
    Conclude({Reason::kAbsent, silent | late, {}});
  return Ended();
}

// Asks the group's other members whether they have begun the call. Returns those that no question can be sent to.
RankSet GlooMesh::Ask(GroupIndex group, std::uint64_t call, const RankSet& but, RankSet* asked) {
  RankSet lost = but;
  const std::vector<int> members = state_.With([&](State& state) { return state.calls[group].members; });
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    if (member == rank() || but.test(i)) continue;
    (Tell(member, {Say::kAsk, group, call, {}, {}}) ? asked : &lost)->set(i);
  }
  return lost;
}

void GlooMesh::Conclude(const Verdict& verdict) {
  state_.Change([&](State& state) {
    if (!state.verdict) state.verdict = verdict;
    InterruptAll(state);
  });
}

// After a verdict. Returns when the connections are closed, whoever closes them.
void GlooMesh::Close() {
  Verdict verdict;
  const bool mine = state_.With([&](State& state) {
    verdict = *state.verdict;
    return !std::exchange(state.closing, true);
  });
  if (mine) {
    SayFarewell(verdict);
    CloseConnections();
    state_.Change([](State& state) { state.closed = true; });
  }
  state_.AwaitUntil(kNever, [](State& state) { return state.closed; });
}

// Also by a rank that was told: then who finds its connection broken has heard why, from it too.
void GlooMesh::SayFarewell(const Verdict& verdict) {
  const auto is_there = [&](int other) { return !verdict.missing.test(static_cast<std::size_t>(other)); };
  std::vector<int> told;
  for (const int other : others_) {
    if (Tell(other, FarewellOf(verdict))) told.push_back(other);
  }
  std::stable_partition(told.begin(), told.end(), is_there);  // the missing may never hear it
  const Deadline start = Clock::now();
  for (const int other : told) {
    const Deadline deadline = start + (is_there(other) ? options_.answer : options_.farewell);
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    const Outbox& outbox = outboxes_[static_cast<std::size_t>(other)];
    try {
      outbox.buffers[static_cast<std::size_t>(Say::kFarewell)]->waitSend(nullptr, std::max(milliseconds(1), left));
    } catch (const std::exception&) {
      continue;  // closed by the other side, or it finds out when this one closes
    }
  }
}

// Gloo closes all connections of a context, and writes nowhere any more, when a wait of it runs out of time.
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

// ------------------------------------------------------------------------------------------ what ranks say to others

// False when the connection is broken.
bool GlooMesh::Tell(int rank, const Control& control) {
  Outbox& outbox = outboxes_[static_cast<std::size_t>(rank)];
  const auto place = static_cast<std::size_t>(control.say);
  outbox.controls[place] = control;
  try {
    outbox.buffers[place]->send(rank, kControlTag, 0, sizeof(Control));
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

// Where the connection is broken, the listener finds out.
void GlooMesh::Echo(int rank, Way way) {
  try {
    echoes_[way]->send(rank, kControlTag, 0, sizeof(Control));
  } catch (const std::exception&) {
    return;
  }
}

// A connection that breaks with something said on it that was not heard yet is taken out, so that the others are heard.
void GlooMesh::Listen(Way way) {
  pthread_setname_np(pthread_self(), "mesh-listener");
  for (std::vector<int> speakers = others_; !speakers.empty();) {
    if (ListenTo(way, speakers)) return;
    std::erase_if(speakers, [&](int other) { return Probe(other, way).has_value(); });  // Gloo does not say which one
  }
}

// True when the mesh stops, false when a connection broke.
bool GlooMesh::ListenTo(Way way, const std::vector<int>& speakers) {
  Control heard{};
  const std::unique_ptr<Buffer> ear = contexts_[way]->createUnboundBuffer(&heard, sizeof heard);
  bool stopping = state_.With([&](State& state) {
    state.ears[way] = ear.get();
    return state.stopping;
  });
  try {
    for (int from = 0; !stopping;) {
      ear->recv(speakers, kControlTag, 0, sizeof(Control));
      stopping = !ear->waitRecv(&from, kForever);
      if (!stopping) Hear(from, way, heard);
    }
  } catch (const std::exception&) {
    stopping = false;
  }
  state_.With([way](State& state) { state.ears[way] = nullptr; });
  return stopping;
}

void GlooMesh::Hear(int from, Way way, const Control& control) {
  const auto sender = static_cast<std::size_t>(from);
  state_.With([&](State& state) { ++state.heard[sender]; });
  switch (control.say) {
    case Say::kAsk: {
      const GroupIndex group = control.group % kGroupsMax;
      // Who waits in an earlier call is there too: somebody else keeps him.
      const bool is_there = state_.With(
          [&](State& state) { return state.calls[group].number >= control.number || state.calls[group].is_under_way; });
      Tell(from, {Say::kAnswer, group, is_there, {}, {}});
      break;
    }
    case Say::kAnswer:
      state_.Change(
          [&](State& state) { state.answers[sender] = control.number != 0 ? Answer::kHasBegun : Answer::kHasNot; });
      break;
    case Say::kFarewell: Conclude(VerdictOf(control, size())); break;
    case Say::kProbe: Echo(from, way); break;
    case Say::kHere: break;
  }
}

}  // namespace

Result<std::shared_ptr<Mesh>> CreateGlooMesh(const GlooMeshOptions& options, Rendezvous* rendezvous,
                                             Deadline deadline) {
  if (options.size < 1 || options.size > kRanksMax || options.rank < 0 || options.rank >= options.size) {
    return Invalid("rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
                   " cannot be in a mesh; it has 1 to " + std::to_string(kRanksMax) + " ranks, counted from 0");
  }
  auto mesh = std::make_shared<GlooMesh>(options);
  CAPSTAN_RETURN_IF_ERROR(mesh->Connect(rendezvous, deadline));
  return std::shared_ptr<Mesh>(std::move(mesh));
}

}  // namespace capstan::collective
