// Two workers of one machine, both in this process: what each tells its session to push or release, and what happens to
// their group.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"
#include "common/wire/messages/group_state.h"
#include "tests/catch.h"
#include "worker/collective/device_meeting.h"
#include "worker/machine/machine_reducer.h"

namespace capstan::train {
namespace {

using session::PushWay;
using session::Session;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);

struct Heard {
  std::vector<session::PushCommand> pushes;
  std::vector<std::uint64_t> released;  // by round
  std::vector<session::MachineGroupCommand> said;
  bool stops_at_release = false;  // while this is true, the callback blocks at its next ReleaseCommand
};

// An adder on devices that finishes no bucket: Finish waits until the group is over, and fails.
class HangingAdder final : public DeviceBucketAdder {
 public:
  explicit HangingAdder(Guarded<int>* hangs) : hangs_(*hangs) {}

  Status Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
              collective::Deadline deadline) override {
    watch_ = group.watch;
    return rendezvous->Exchange(group.rank, "card", deadline).status();
  }
  bool is_impatient() const override { return true; }
  std::size_t ahead_max() const override { return 0; }
  Status Begin(const MachineStep&, const Bucket&) override { return {}; }
  Status Finish(const std::function<void(BlockIndex)>&) override {
    hangs_.Change([](int& hangs) { ++hangs; });
    const auto end = Clock::now() + kPatience;
    while (watch_().ok() && Clock::now() < end) std::this_thread::yield();
    return watch_();
  }

 private:
  Guarded<int>& hangs_;
  std::function<Status()> watch_;
};

enum class Adds : std::uint8_t { kOnHosts, kOnHangingDevices };

// A worker's machine reducer. In place of a session, this class records the reducer's commands.
class Neighbour {
 public:
  Neighbour(const Catalog& catalog, int rank, Adds adds = Adds::kOnHosts)
      : catalog_(catalog), rank_(rank), pool_(1024) {
    device_ = {{std::to_string(rank), "a library"},
               [this](const AdderOptions&) -> Result<std::unique_ptr<DeviceBucketAdder>> {
                 return std::unique_ptr<DeviceBucketAdder>(std::make_unique<HangingAdder>(&hangs_));
               }};
    const AdderDevice* const device = adds == Adds::kOnHosts ? nullptr : &device_;
    reducer_ = CreateMachineReducer({.host = "127.0.0.1", .bucket_bytes = 16, .device = [device] { return device; }});
    reducer_->Begin(catalog, Encoding::kFp32, [this](session::Command&& command) {
      heard_.Change([&](Heard& heard) {
        if (auto* push = std::get_if<session::PushCommand>(&command)) heard.pushes.push_back(std::move(*push));
        if (const auto* release = std::get_if<session::ReleaseCommand>(&command))
          heard.released.push_back(release->round);
        if (auto* said = std::get_if<session::MachineGroupCommand>(&command)) heard.said.push_back(std::move(*said));
      });
      if (!std::holds_alternative<session::ReleaseCommand>(command)) return;
      (void)heard_.AwaitUntil(Clock::now() + kPatience, [](const Heard& heard) { return !heard.stops_at_release; });
    });
  }
  ~Neighbour() { reducer_->Stop(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void Tell(std::uint64_t epoch, const std::vector<std::string>& addresses) {
    Session::MachineGrouping group{epoch, {}, rank_};
    for (std::size_t i = 0; i < 2; ++i) {
      group.members.push_back({"w" + std::to_string(i), addresses.empty() ? "" : addresses[i]});
    }
    reducer_->TakeGroup(group);
  }
  // Waits until the reducer's newest report about its group has this state. Returns the report's text; nullopt: that
  // did not happen in time.
  std::optional<std::string> Await(GroupState state) {
    const auto is = [&](const Heard& heard) { return !heard.said.empty() && heard.said.back().state == state; };
    if (!heard_.AwaitUntil(Clock::now() + kPatience, is)) return std::nullopt;
    return heard_.With([](const Heard& heard) { return heard.said.back().text; });
  }
  bool AwaitPushes(std::size_t count) {
    return heard_.AwaitUntil(Clock::now() + kPatience,
                             [&](const Heard& heard) { return heard.pushes.size() >= count; });
  }
  bool AwaitReleased(std::uint64_t round) {
    return heard_.AwaitUntil(Clock::now() + kPatience, [&](const Heard& heard) {
      return std::find(heard.released.begin(), heard.released.end(), round) != heard.released.end();
    });
  }
  // Waits until so many calls of Finish have hung in all. Returns whether that happened in time.
  bool AwaitHanging(int count) {
    return hangs_.AwaitUntil(Clock::now() + kPatience, [&](int hangs) { return hangs >= count; });
  }
  void StopAtRelease() {
    heard_.Change([](Heard& heard) { heard.stops_at_release = true; });
  }
  void GoOn() {
    heard_.Change([](Heard& heard) { heard.stops_at_release = false; });
  }
  Heard heard() {
    return heard_.With([](const Heard& heard) { return heard; });
  }

  // Begins a round with slot `rank` of two. Every number of the slot's gradient is `value`.
  PushWay Begin(std::uint64_t round, std::uint64_t step, float value) {
    BufferRef gradient = pool_.Take();
    for (std::uint64_t i = 0; i < catalog_.element_count(); ++i) gradient.As<float>()[i] = value;
    const auto slot = static_cast<SlotIndex>(rank_);
    return reducer_->BeginRound({round, Generation{1}, Step{step}, 2, 1.0F, {{{slot, slot + 1}, 2, gradient}}});
  }
  void AllReady() {
    for (auto block = static_cast<BlockIndex>(catalog_.blocks().size()); block-- > 0;) reducer_->BlockReady(block);
  }
  client::MachineReduce& reducer() { return *reducer_; }

 private:
  const Catalog& catalog_;
  const int rank_;
  BufferPool pool_;
  Guarded<Heard> heard_;
  Guarded<int> hangs_;
  AdderDevice device_;
  std::unique_ptr<client::MachineReduce> reducer_;
};

class Machine {
 public:
  explicit Machine(Adds adds = Adds::kOnHosts) {
    signal(SIGPIPE, SIG_IGN);
    for (int rank : {0, 1}) workers.push_back(std::make_unique<Neighbour>(catalog, rank, adds));
    Form(5);
  }
  void Form(std::uint64_t epoch) {
    std::vector<std::string> addresses;
    for (auto& worker : workers) worker->Tell(epoch, {});
    for (auto& worker : workers) addresses.push_back(worker->Await(GroupState::kOffered).value());
    for (auto& worker : workers) worker->Tell(epoch, addresses);
    for (auto& worker : workers) REQUIRE(worker->Await(GroupState::kFormed));
  }
  Neighbour& first() { return *workers[0]; }
  Neighbour& second() { return *workers[1]; }

  const Catalog catalog =
      Catalog::Create({{"a", {3}, {InitKind::kZeros, 0.0F}, true}, {"b", {2, 2}, {InitKind::kZeros, 0.0F}, true}})
          .value();
  std::vector<std::unique_ptr<Neighbour>> workers;
};

TEST_CASE("the first worker of a machine pushes the sum, and the other one holds its own", "[machine]") {
  Machine machine;
  for (std::uint64_t step = 0; step < 3; ++step) {
    CHECK(machine.first().Begin(10 + step, step, 1.0F) == PushWay::kDeferred);
    CHECK(machine.second().Begin(20 + step, step, 2.0F) == PushWay::kDeferred);
    for (auto& worker : machine.workers) worker->AllReady();
    const std::size_t blocks = machine.catalog.blocks().size();
    REQUIRE(machine.first().AwaitPushes(blocks * (step + 1)));
    CHECK(machine.first().reducer().Done(Clock::now() + kPatience));
    const session::PushCommand push = machine.first().heard().pushes.back();
    CHECK(push.round == 10 + step);
    CHECK(push.node == Node{0, 2});
    CHECK(push.samples == 4);
    CHECK(reinterpret_cast<const float*>(push.payload.data)[0] == 2.0F * 1.0F + 2.0F * 2.0F);
  }
  CHECK(machine.second().heard().pushes.empty());
  CHECK(machine.first().heard().released.empty());
  CHECK(machine.second().heard().released.empty());
}

TEST_CASE("a second round of a step, and who is behind, are pushed by themselves", "[machine]") {
  Machine machine;
  CHECK(machine.first().Begin(10, 4, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().Begin(20, 3, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().AwaitReleased(20));
  CHECK(machine.first().Begin(11, 4, 1.0F) == PushWay::kNow);
  CHECK(machine.first().reducer().Done(Clock::now()));  // no member is waited for
}

TEST_CASE("a worker that had nothing to do in a step is not waited for, and does what comes later by itself",
          "[machine]") {
  Machine machine;
  CHECK(machine.first().Begin(10, 4, 1.0F) == PushWay::kDeferred);
  machine.second().reducer().TakeStepDone({Generation{1}, Step{4}});
  CHECK(machine.first().AwaitReleased(10));
  CHECK(machine.second().Begin(20, 4, 1.0F) == PushWay::kNow);
  for (auto& worker : machine.workers) CHECK(worker->Begin(21, 5, 1.0F) == PushWay::kDeferred);
  machine.first().reducer().TakeStepDone({Generation{1}, Step{5}});  // it has contributed what it had
  for (auto& worker : machine.workers) worker->AllReady();
  CHECK(machine.first().AwaitPushes(machine.catalog.blocks().size()));
}

TEST_CASE("a round that is given up before they meet is pushed by all, and their group lives on", "[machine]") {
  Machine machine;
  machine.first().StopAtRelease();
  CHECK(machine.first().Begin(10, 0, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().Begin(20, 1, 1.0F) == PushWay::kDeferred);
  REQUIRE(machine.first().AwaitReleased(10));
  CHECK(machine.first().Begin(11, 1, 1.0F) == PushWay::kDeferred);
  machine.first().reducer().GiveUpRound();
  machine.first().GoOn();
  machine.second().AllReady();
  CHECK(machine.second().AwaitReleased(20));
  CHECK(machine.first().Begin(12, 2, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().Begin(21, 2, 1.0F) == PushWay::kDeferred);
  for (auto& worker : machine.workers) worker->AllReady();
  CHECK(machine.first().AwaitPushes(machine.catalog.blocks().size()));
  for (auto& worker : machine.workers) CHECK(worker->heard().said.back().state == GroupState::kFormed);
}

TEST_CASE("whose neighbour is lost pushes by itself and says so, and they can form another group", "[machine]") {
  Machine machine;
  CHECK(machine.first().Begin(10, 0, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().Begin(20, 0, 1.0F) == PushWay::kDeferred);
  machine.second().AllReady();
  machine.first().reducer().TakeStepDone({Generation{1}, Step{0}});  // its deferred pushes are not forgotten
  machine.first().reducer().GiveUpRound();                           // it may have begun to add
  machine.workers.pop_back();
  CHECK(machine.first().AwaitReleased(10));
  (void)machine.first().Begin(11, 1, 1.0F);  // it is noticed here at the latest
  CHECK(machine.first().Await(GroupState::kBroken));
  machine.workers.push_back(std::make_unique<Neighbour>(machine.catalog, 1));
  machine.Form(6);
  CHECK(machine.first().Begin(12, 2, 1.0F) == PushWay::kDeferred);
  CHECK(machine.second().Begin(20, 2, 1.0F) == PushWay::kDeferred);
  for (auto& worker : machine.workers) worker->AllReady();
  CHECK(machine.first().AwaitPushes(machine.catalog.blocks().size()));
}

TEST_CASE("a neighbour that is lost while devices add up is no fault of theirs", "[machine]") {
  Machine machine(Adds::kOnHangingDevices);
  for (std::uint64_t lost = 0; lost < DeviceTries::kMax; ++lost) {
    for (auto& worker : machine.workers) {
      CHECK(worker->Begin(10 + lost, lost, 1.0F) == PushWay::kDeferred);
      worker->AllReady();
    }
    REQUIRE(machine.first().AwaitHanging(static_cast<int>(lost) + 1));
    machine.workers.pop_back();
    REQUIRE(machine.first().Await(GroupState::kBroken));
    machine.workers.push_back(std::make_unique<Neighbour>(machine.catalog, 1, Adds::kOnHangingDevices));
    machine.Form(6 + lost);
  }
  CHECK(machine.first().reducer().counters().device_groups_formed == DeviceTries::kMax + 1);
}

}  // namespace
}  // namespace capstan::train
