// Whether the three workers of a machine add up on their devices or on the CPU. Each worker is a thread.
#include "worker/machine/adder_choice.h"
#include "common/wire/messages/group.h"

#include <algorithm>

#include "tests/worker/collective/groups.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;

// Takes the place of the adder on devices. Form returns `failure`, before its exchange of texts if `meets` is false.
class FakeAdder final : public DeviceBucketAdder {
 public:
  explicit FakeAdder(Status failure, bool meets) : failure_(std::move(failure)), meets_(meets) {}

  Status Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
              collective::Deadline deadline) override {
    if (!meets_) return failure_;
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> offers, rendezvous->Exchange(group.rank, "card", deadline));
    const bool all = std::all_of(offers.begin(), offers.end(), [](const auto& offer) { return offer == "card"; });
    return all ? failure_ : Invalid("another member does not form it");
  }
  bool is_impatient() const override { return true; }
  std::size_t ahead_max() const override { return 0; }
  Status Begin(const MachineStep&, const Bucket&) override { return {}; }
  Status Finish(const std::function<void(BlockIndex)>&) override { return {}; }

 private:
  const Status failure_;
  const bool meets_;
};

struct Chooser {
  explicit Chooser(DeviceAdderMaker make, const std::string& id = "")
      : device{{id, "NCCL 2"}, std::move(make)},
        choice({&device, {}, [this](const std::string& text) { said = text; }}) {}

  std::string said;
  AdderDevice device;
  AdderChoice choice;
};

const DeviceAdderMaker kGood = [](const AdderOptions&) -> Result<std::unique_ptr<DeviceBucketAdder>> {
  return std::unique_ptr<DeviceBucketAdder>(std::make_unique<FakeAdder>(Status(), true));
};

// Lets all workers choose an adder, over one group. Checks that all choose alike; returns whether they chose devices.
bool Choose(std::vector<std::unique_ptr<Chooser>>& workers) {
  const int size = static_cast<int>(workers.size());
  collective::Groups groups("in process", size);
  MachineMembers of;
  for (int rank = 0; rank < size; ++rank) {
    of.members.push_back({"w" + std::to_string(rank), ""});
  }
  of.look_up = [] { return Status(); };
  const Catalog catalog = Catalog::Create({{"a", {8}, {InitKind::kZeros, 0.0F}, true}}).value();
  AdderOptions options;
  options.catalog = &catalog;
  groups.RunWell([&](collective::Group& group) -> Status {
    MachineMembers mine = of;
    mine.rank = group.rank();
    auto adder = workers[static_cast<std::size_t>(group.rank())]->choice.Choose(mine, options, &group);
    CAPSTAN_RETURN_IF_ERROR(adder.status());
    return group.Barrier(collective::In(collective::kPatience));  // they are still in step
  });
  const bool on_devices = workers[0]->choice.on_devices();
  for (const auto& worker : workers) CHECK(worker->choice.on_devices() == on_devices);
  return on_devices;
}

std::vector<std::unique_ptr<Chooser>> ThreeChoosers(const DeviceAdderMaker& of_second) {
  std::vector<std::unique_ptr<Chooser>> workers;
  workers.push_back(std::make_unique<Chooser>(kGood, "a"));
  workers.push_back(std::make_unique<Chooser>(of_second, "b"));
  workers.push_back(std::make_unique<Chooser>(kGood, "c"));
  return workers;
}

TEST_CASE("workers whose devices all can add up there", "[machine]") {
  auto workers = ThreeChoosers(kGood);
  CHECK(Choose(workers));
  CHECK_THAT(workers[2]->said, Contains("on the device of \"w0\", for 3 workers, by NCCL 2"));
}

TEST_CASE("where one device cannot, wherever it fails, all take the hosts and say whose fault it is", "[machine]") {
  const Status failure = Unreachable("the device gives no stream");
  const bool is_made = GENERATE(true, false), meets = GENERATE(true, false);
  auto workers = ThreeChoosers([=](const AdderOptions&) -> Result<std::unique_ptr<DeviceBucketAdder>> {
    if (!is_made) return failure;
    return std::unique_ptr<DeviceBucketAdder>(std::make_unique<FakeAdder>(failure, meets));
  });
  CHECK_FALSE(Choose(workers));
  for (const auto& worker : workers) {
    CHECK_THAT(worker->said, Contains("over Gloo, because") && Contains("\"w1\": the device gives no stream"));
  }
}

TEST_CASE("devices that have failed in three groups are left alone, whatever the hosts get done", "[machine]") {
  auto workers = ThreeChoosers(kGood);
  for (int time = 0; time < DeviceTries::kMax; ++time) {
    REQUIRE(Choose(workers));
    workers[1]->choice.Failed(Timeout("it hangs"));
    if (time == 0) workers[2]->choice.Failed(Timeout("it is gone"));  // the same group
  }
  for (int time = 0; time < 2; ++time) {
    CHECK_FALSE(Choose(workers));
    CHECK_THAT(workers[0]->said, Contains("ended 3 times") && Contains("it hangs"));
    for (const auto& worker : workers) worker->choice.StepDone();
  }
}

TEST_CASE("whoever sees that a group fails, all count it, also one that has just been started", "[machine]") {
  auto workers = ThreeChoosers(kGood);
  for (std::size_t time = 0; time < DeviceTries::kMax; ++time) {
    REQUIRE(Choose(workers));
    workers[time]->choice.Failed(Timeout("it hangs"));
  }
  CHECK_FALSE(Choose(workers));
  workers[2] = std::make_unique<Chooser>(kGood, "c");
  CHECK_FALSE(Choose(workers));
  CHECK_THAT(workers[2]->said, Contains("ended 3 times") && Contains("it hangs"));
}

TEST_CASE("a step on devices makes up for groups that have failed", "[machine]") {
  auto workers = ThreeChoosers(kGood);
  for (int time = 0; time < 2 * DeviceTries::kMax; ++time) {
    REQUIRE(Choose(workers));
    for (const auto& worker : workers) worker->choice.StepDone();
    workers[1]->choice.Failed(Timeout("it hangs"));
  }
}

}  // namespace
}  // namespace capstan::train
