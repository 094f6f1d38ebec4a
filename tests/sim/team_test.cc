// Collective calls of a team: every member gets the bytes of all, whatever the network does and although the
// coordinator restarts; a lost member and calls that differ are named.
#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/catch.h"
#include "tests/sim/team_network.h"

namespace capstan::sim {
namespace {

using session::TeamFailed;
using session::TeamFormed;
using session::TeamWaits;

// The bytes that a rank gives in a call: of any size, and different in each.
std::vector<std::byte> BytesOf(std::uint64_t seed, std::uint64_t call, std::uint32_t rank) {
  RandomStream random(seed * 1'000'003 + call * 131 + rank);
  const std::uint64_t kind = random.Next64() % 8;
  std::size_t size = random.Next64() % 500;
  if (kind == 0) size = 0;
  if (kind == 1) size = kTeamPieceBytes * (1 + random.Next64() % 12);
  if (kind == 2) size = kTeamPieceBytes * (random.Next64() % 3) + random.Next64() % 1000;
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; i += 97) bytes[i] = static_cast<std::byte>(random.Next64());
  return bytes;
}

Slice SliceOf(const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return {};
  auto* const copy = new std::byte[bytes.size()];
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto drop = [](void* context) { delete[] static_cast<std::byte*>(context); };
  return WholeBuffer(WrapForeign(copy, bytes.size(), drop, copy));
}

// The application of one worker: it makes the team's calls one after the other, and keeps what it is told.
struct Application {
  std::optional<TeamFormed> team;
  Status failure;
  std::string missing;
  std::uint32_t waiting = 0;
  std::uint64_t calls = 0;  // made
  bool busy = false;
  std::vector<std::vector<std::byte>> got;  // of the present call, by rank

  void Take(session::TeamMember* member) {
    for (session::TeamEvent& event : member->TakeEvents()) {
      if (auto* formed = std::get_if<TeamFormed>(&event)) team = *formed;
      if (auto* failed = std::get_if<TeamFailed>(&event)) failure = failed->status;
      if (auto* waits = std::get_if<TeamWaits>(&event)) {
        missing = waits->missing;
        waiting = waits->waiting;
      }
      if (auto* pieces = std::get_if<session::TeamPieces>(&event)) {
        got.resize(pieces->parts.size());
        for (std::size_t rank = 0; rank < got.size(); ++rank) {
          const auto part = pieces->parts[rank].bytes();
          got[rank].insert(got[rank].end(), part.begin(), part.end());
          if (pieces->is_last) CHECK(got[rank].size() == pieces->bytes[rank]);
        }
        busy = !pieces->is_last;
      }
    }
  }
};

class TeamRun {
 public:
  TeamRun(std::uint64_t seed, std::uint32_t workers, TeamFaults faults = {}, std::size_t again = 1)
      : network(seed, workers, faults, again), applications(workers), seed_(seed) {}

  void FormAll() {
    for (std::size_t i = 0; i < applications.size(); ++i) network.Form(i);
    Until([&] { return std::all_of(applications.begin(), applications.end(), [](const auto& a) { return a.team; }); });
  }
  void Look() {
    for (std::size_t i = 0; i < applications.size(); ++i) applications[i].Take(&network.member(i));
  }
  template <class F>
  void Until(const F& done) {
    for (int step = 0; step < 60'000 && !done(); ++step) {
      network.Step();
      Look();
    }
    REQUIRE(done());
  }
  // A worker begins its next call if it has ended the one before.
  void Go(std::size_t worker, std::uint64_t calls) {
    Application& application = applications[worker];
    if (application.busy) return;
    if (application.calls > 0 && !application.got.empty()) CheckCall(application);
    if (application.calls == calls) return;
    application.busy = true;
    network.Call(worker, "a call", SliceOf(BytesOf(seed_, ++application.calls, application.team->rank)));
    application.Take(&network.member(worker));
  }
  void CheckCall(Application& application) {
    for (std::uint32_t rank = 0; rank < application.got.size(); ++rank) {
      REQUIRE(application.got[rank] == BytesOf(seed_, application.calls, rank));
    }
    application.got.clear();
    ++checked;
  }

  TeamNetwork network;
  std::vector<Application> applications;
  std::uint64_t checked = 0;

 private:
  const std::uint64_t seed_;
};

void RunCalls(TeamRun* run, std::uint64_t calls, std::uint64_t restart_every = 0) {
  std::uint64_t steps = 0;
  run->Until([&] {
    for (std::size_t i = 0; i < run->applications.size(); ++i) {
      INFO(run->applications[i].failure.message());
      REQUIRE(run->applications[i].failure.ok());
      run->Go(i, calls);
    }
    if (restart_every != 0 && ++steps % restart_every == 0) run->network.RestartCoordinator();
    return run->checked == calls * run->applications.size();
  });
}

TEST_CASE("every member of a team gets the bytes of all, by rank", "[sim][team]") {
  for (const std::uint32_t workers : {1U, 2U, 3U, 5U}) {
    TeamRun run(workers, workers);
    run.FormAll();
    RunCalls(&run, 20);
  }
}

TEST_CASE("no piece is given twice on a network that loses nothing", "[sim][team]") {
  TeamRun run(3, 3);
  run.FormAll();
  RunCalls(&run, 20);
  std::uint64_t pieces = 0;
  for (std::uint64_t call = 1; call <= 20; ++call) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) pieces += capstan::TeamPieces(BytesOf(3, call, rank).size());
  }
  CHECK(run.network.given() == pieces);
}

TEST_CASE("messages that are lost, repeated and late change no byte", "[sim][team]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    TeamRun run(seed, 2 + static_cast<std::uint32_t>(seed % 3), {10, 10, std::chrono::milliseconds(200)});
    run.FormAll();
    RunCalls(&run, 8);
  }
}

TEST_CASE("a coordinator that restarts again and again changes no byte", "[sim][team]") {
  std::uint64_t restarts = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const auto odd = static_cast<std::uint32_t>(seed % 2 * 5);
    TeamRun run(100 + seed, 2 + static_cast<std::uint32_t>(seed % 3), {odd, odd, std::chrono::milliseconds(60)});
    run.FormAll();
    RunCalls(&run, 8, 150 + seed * 7);
    restarts += run.network.restarts();
  }
  CHECK(restarts > 30);
}

TEST_CASE("a member that is lost ends the team, and the others learn its rank and name", "[sim][team]") {
  TeamRun run(1, 3);
  run.FormAll();
  run.Go(0, 1);
  run.Until([&] { return run.applications[0].missing.find("rank 2 of 3 (\"worker-2\")") != std::string::npos; });
  run.Go(1, 1);
  run.network.Kill(2);
  run.Until([&] { return !run.applications[0].failure.ok() && !run.applications[1].failure.ok(); });
  CHECK(run.applications[0].failure.code() == Code::kUnreachable);
  CHECK(run.applications[0].failure.message().find("rank 2 of 3 (\"worker-2\")") == 0);
}

// Two of three workers that were in a team; the third is lost, and both ask for another team.
TeamRun AfterALoss(std::size_t again) {
  TeamRun run(1, 3, {}, again);
  run.FormAll();
  run.network.Kill(0);
  run.Until([&] { return !run.applications[1].failure.ok() && !run.applications[2].failure.ok(); });
  for (const std::size_t i : {2, 1}) {
    run.applications[i] = {};
    run.network.Form(i);
  }
  return run;
}

TEST_CASE("the members that remain form a team where fewer are enough", "[sim][team]") {
  TeamRun run = AfterALoss(2);
  run.Until([&] { return run.applications[1].team && run.applications[2].team; });
  CHECK(run.applications[1].team->rank == 0);
  CHECK(run.applications[2].team->ranks == 2);
}

TEST_CASE("the members that remain wait for a replacement where fewer are not enough", "[sim][team]") {
  TeamRun run = AfterALoss(3);
  run.network.Steps(100);
  run.Look();
  CHECK(!run.applications[1].team);
  CHECK(run.applications[1].missing == "1 worker (not joined)");
  run.applications.emplace_back();
  run.network.Form(run.network.AddWorker());
  run.Until([&] { return run.applications[1].team && run.applications[2].team && run.applications[3].team; });
  CHECK(run.applications[1].team->rank == 0);  // those of the team before come first, in its order
  CHECK(run.applications[2].team->rank == 1);
  CHECK(run.applications[3].team->rank == 2);
}

TEST_CASE("a member that does not come back to a coordinator that restarted is lost", "[sim][team]") {
  TeamRun run(1, 3);
  run.FormAll();
  run.network.Kill(1);
  run.network.RestartCoordinator();
  run.Go(0, 1);
  run.Until([&] { return !run.applications[0].failure.ok() && !run.applications[2].failure.ok(); });
  CHECK(run.applications[2].failure.code() == Code::kUnreachable);
  CHECK(run.applications[2].failure.message().find("rank 1 of 3 (which has not come back") == 0);
}

TEST_CASE("a coordinator that dies while a team forms leaves no member waiting", "[sim][team]") {
  std::uint64_t halves = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    TeamRun run(seed, 3, {0, 0, std::chrono::milliseconds(200)});
    for (std::size_t i = 0; i < 3; ++i) run.network.Form(i);
    const auto formed = [&] {
      return std::count_if(run.applications.begin(), run.applications.end(), [](const auto& one) { return one.team; });
    };
    run.Until([&] { return formed() > 0; });
    if (formed() == 3) continue;
    ++halves;
    run.network.RestartAndLose();
    for (std::size_t i = 0; i < 3; ++i) {
      if (run.applications[i].team) run.Go(i, 1);  // as a program does at once
    }
    // Those that had formed are told whom the new coordinator lacks, and ask for another team.
    for (int step = 0; step < 2500 && run.checked < 3; ++step) {
      run.network.Step();
      run.Look();
      for (std::size_t i = 0; i < 3; ++i) {
        Application& one = run.applications[i];
        if (!one.failure.ok()) {
          CHECK(one.failure.code() == Code::kUnreachable);
          CHECK(one.failure.message().find("which has not come back since the coordinator restarted") !=
                std::string::npos);
          one = {};
          run.network.Form(i);
        } else if (one.team) {
          run.Go(i, 1);
        }
      }
    }
    CHECK(run.checked == 3);
  }
  CHECK(halves > 10);
}

TEST_CASE("calls that differ end the team, and the error names both", "[sim][team]") {
  TeamRun run(1, 2);
  run.FormAll();
  run.network.Call(0, "all_reduce(sum) of 3 float32", SliceOf(std::vector<std::byte>(12)));
  run.network.Call(1, "all_reduce(sum) of 4 float32", SliceOf(std::vector<std::byte>(16)));
  run.Until([&] { return !run.applications[0].failure.ok() && !run.applications[1].failure.ok(); });
  CHECK(run.applications[0].failure.code() == Code::kInvalid);
  for (const char* part :
       {"rank 0 of 2 (\"worker-0\")", "rank 1 of 2 (\"worker-1\")", "of 3 float32", "of 4 float32"}) {
    CHECK(run.applications[0].failure.message().find(part) != std::string::npos);
  }
  // Later calls fail in the same way.
  run.applications[0].failure = {};
  run.network.Call(0, "another", {});
  run.applications[0].Take(&run.network.member(0));
  CHECK(run.applications[0].failure.code() == Code::kInvalid);
}

TEST_CASE("ranks that programs ask for are theirs, and a rank asked for twice is refused by name", "[sim][team]") {
  TeamRun run(1, 3);
  run.network.Form(0, 2, 2);
  run.Until([&] { return run.applications[0].missing == "rank 0 of 2 (has not asked for a team)"; });
  run.network.Form(1, 2, 2);
  run.Until([&] { return !run.applications[1].failure.ok(); });
  CHECK(run.applications[1].failure.message() ==
        "\"worker-1\" asks to be rank 1 of 2 of a team, and so does \"worker-0\"; give each process another rank");
  run.network.Form(2, 1, 3);
  run.Until([&] { return !run.applications[2].failure.ok(); });
  CHECK(run.applications[2].failure.message().find("\"worker-0\" for one of 2") != std::string::npos);
  run.network.Form(1, 1, 2);
  run.Until([&] { return run.applications[0].team && run.applications[1].team; });
  CHECK(run.applications[0].team->rank == 1);
  CHECK(run.applications[1].team->rank == 0);
}

TEST_CASE("a team learns that a process waits for another one", "[sim][team]") {
  TeamRun run(1, 2);
  run.FormAll();
  run.applications.emplace_back();
  run.network.Form(run.network.AddWorker());
  run.Until([&] { return run.applications[0].waiting == 1 && run.applications[1].waiting == 1; });
  CHECK(run.applications[2].missing == "worker-0, worker-1");
  run.Go(0, 1);  // the present team goes on
  run.Go(1, 1);
  run.Until([&] { return !run.applications[0].busy && !run.applications[1].busy; });
  run.applications[0] = run.applications[1] = {};
  run.network.Form(1);
  run.network.Form(0);
  run.Until([&] { return run.applications[0].team && run.applications[2].team; });
  CHECK(run.applications[0].team->rank == 0);
  CHECK(run.applications[2].team->rank == 2);
  CHECK(run.applications[2].team->ranks == 3);
}

}  // namespace
}  // namespace capstan::sim
