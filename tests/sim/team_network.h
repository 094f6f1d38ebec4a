// TeamNetwork: the coordinator's Teams and the TeamMembers of several workers, with a network that loses, repeats and
// delays their messages, and with a coordinator that restarts.
//
// Kind:   a value of one test; the seed decides everything that happens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/wire/messages/team.h"
#include "server/coordinator/teams.h"
#include "worker/session/team_member.h"

namespace capstan::sim {

struct TeamFaults {
  std::uint64_t lost = 0, repeated = 0;  // percent of the messages
  Instant delay_max = std::chrono::milliseconds(1);
};

class TeamNetwork {
 public:
  // `again`: how many workers are enough for another team.
  TeamNetwork(std::uint64_t seed, std::uint32_t workers, TeamFaults faults, std::size_t again = 1)
      : random_(seed), faults_(faults), first_(workers), again_(again) {
    for (std::uint32_t i = 0; i < workers; ++i) AddWorker();
    StartCoordinator();
  }

  session::TeamMember& member(std::size_t worker) { return *workers_[worker].member; }
  SessionId session(std::size_t worker) const { return workers_[worker].session; }
  Instant now() const { return now_; }

  // A new process, under the name of its number.
  std::size_t AddWorker() {
    const std::uint64_t nonce = 100 + ++nonces_;
    workers_.push_back({"worker-" + std::to_string(workers_.size()), nonce, SessionId{},
                        std::make_unique<session::TeamMember>(PeerId{1}, nonce), true});
    if (teams_) Join(workers_.size() - 1);
    return workers_.size() - 1;
  }
  void Kill(std::size_t worker) {
    workers_[worker].alive = false;
    members_->Remove(workers_[worker].session);
  }
  // The coordinator loses all that it knew. Its workers join again, one after the other.
  void RestartCoordinator() {
    StartCoordinator();
    std::erase_if(flying_, [](const Flying& one) { return one.to == kCoordinator; });
    for (Worker& worker : workers_) worker.session = {};
    joins_from_ = 0;
  }
  // As RestartCoordinator; what the coordinator has sent is lost, too.
  void RestartAndLose() {
    RestartCoordinator();
    flying_.clear();
  }
  void Form(std::size_t worker, std::uint32_t rank = 0, std::uint32_t ranks = 0) {
    Outbox out;
    member(worker).Form({rank, ranks, 1}, session(worker), now_, &out);
    Post(kCoordinator, worker, &out);
  }
  void Call(std::size_t worker, const std::string& what, Slice given) {
    Outbox out;
    member(worker).Call(what, std::move(given), session(worker), now_, &out);
    Post(kCoordinator, worker, &out);
  }
  // Lets 10 ms pass.
  void Step() {
    now_ += std::chrono::milliseconds(10);
    if (joins_from_ < workers_.size() && random_.Next64() % 4 == 0) Join(joins_from_++);
    std::vector<Flying> due;
    std::erase_if(flying_, [&](Flying& one) {
      if (one.at > now_) return false;
      due.push_back(std::move(one));
      return true;
    });
    for (Flying& one : due) Deliver(one);
    Outbox out;
    teams_->Tick(Facts(), &out);
    Post(0, 0, &out);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].alive) continue;
      Outbox beat;
      member(i).Tick(session(i), now_, &beat);
      Post(kCoordinator, i, &beat);
    }
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }
  // Pieces that the workers gave, in messages: shows what was sent again.
  std::uint64_t given() const { return given_; }
  std::uint64_t restarts() const { return term_.value - 1; }

 private:
  static constexpr std::size_t kCoordinator = SIZE_MAX;
  static constexpr std::uint64_t kFirstPeer = 1000;
  static constexpr Instant kLease = std::chrono::seconds(10);
  struct Worker {
    std::string name;
    std::uint64_t nonce = 0;
    SessionId session;
    std::unique_ptr<session::TeamMember> member;
    bool alive = true;
  };
  struct Flying {
    std::size_t to, from;  // numbers of workers, or kCoordinator
    Message message;
    Instant at;
  };

  server::Teams::Facts Facts() const { return {*members_, term_, first_, again_, now_ - started_ >= kLease}; }
  void StartCoordinator() {
    term_ = term_.Next();
    started_ = now_;
    members_ = std::make_unique<server::Membership>();
    teams_ = std::make_unique<server::Teams>();
    for (std::size_t i = 0; i < workers_.size() && term_.value == 1; ++i) Join(i);
  }
  void Join(std::size_t worker) {
    Worker& joining = workers_[worker];
    if (!joining.alive) return;
    joining.session = SessionId{++sessions_};
    server::Worker known;
    known.session = joining.session;
    known.name = joining.name;
    known.nonce = joining.nonce;
    known.peer = PeerId{kFirstPeer + worker};
    members_->Add(std::move(known));
    Outbox out;
    joining.member->Rejoined(joining.session, now_, &out);
    Post(kCoordinator, worker, &out);
  }
  void Post(std::size_t to, std::size_t from, Outbox* out) {
    for (Envelope& envelope : out->envelopes) {
      const std::size_t receiver = to == kCoordinator ? to : static_cast<std::size_t>(envelope.to.value - kFirstPeer);
      given_ += envelope.message.header.Is<TeamGive>() ? 1 : 0;
      const std::uint64_t luck = random_.Next64() % 100;
      if (luck < faults_.lost) continue;
      const int copies = luck < faults_.lost + faults_.repeated ? 2 : 1;
      for (int copy = 0; copy < copies; ++copy) {
        const auto delay = Instant(random_.Next64() % static_cast<std::uint64_t>(faults_.delay_max.count()));
        flying_.push_back({receiver, from, envelope.message, now_ + delay});
      }
    }
    out->Clear();
  }
  void Deliver(Flying& one) {
    Outbox out;
    const Header& header = one.message.header;
    if (one.to != kCoordinator) {
      if (!workers_[one.to].alive) return;
      const SessionId session = workers_[one.to].session;
      if (const auto* state = header.As<TeamState>()) member(one.to).Handle(*state, session, now_, &out);
      if (const auto* piece = header.As<TeamPiece>())
        member(one.to).Handle(*piece, one.message.payload, session, now_, &out);
      return Post(kCoordinator, one.to, &out);
    }
    if (const auto* ask = header.As<TeamAsk>()) {
      const server::Worker* worker = members_->Find(ask->session);
      if (worker != nullptr) (void)teams_->Handle(*worker, *ask, Facts(), &out);
    }
    if (const auto* give = header.As<TeamGive>()) {
      const server::Worker* worker = members_->Find(give->session);
      if (worker != nullptr) (void)teams_->Handle(*worker, *give, one.message.payload, Facts(), &out);
    }
    Post(0, 0, &out);
  }

  RandomStream random_;
  const TeamFaults faults_;
  const std::size_t first_, again_;
  Instant now_ = std::chrono::seconds(1000), started_{};
  Term term_;
  std::unique_ptr<server::Membership> members_;
  std::unique_ptr<server::Teams> teams_;
  std::vector<Worker> workers_;
  std::vector<Flying> flying_;
  std::size_t joins_from_ = SIZE_MAX;
  std::uint64_t nonces_ = 0, sessions_ = 0, given_ = 0;
};

}  // namespace capstan::sim
