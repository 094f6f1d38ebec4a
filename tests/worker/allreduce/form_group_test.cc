// How the workers of a generation agree on one version.
#include <algorithm>
#include <future>

#include "common/config/job_config.h"
#include "common/wire/messages/group.h"
#include "tests/catch.h"
#include "worker/allreduce/form_group.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {
namespace {

using Clock = std::chrono::steady_clock;
using collective::CollectiveThread;
using collective::Deadline;
using std::chrono::milliseconds;
using std::chrono::seconds;

EditableJobConfig Config() {
  return ParseJobConfig(
             "[job]\nmode = \"allreduce\"\nsteps = 5\nglobal_batch = 4\nslots = 1\n[model]\nkind = \"mlp\"\n[data]\n"
             "kind = \"synthetic\"\n[optimizer]\nkind = \"momentum\"\n",
             "test")
      .value();
}

// Two workers in one process, each with a replica full of its rank's number plus 1.
class TwoWorkers {
 public:
  TwoWorkers() {
    for (int rank : {0, 1}) {
      replicas.push_back(std::make_unique<Replica>(catalog_, config_));
      for (std::size_t i = 0; i < 2; ++i) std::ranges::fill(replicas.back()->array(i), static_cast<float>(rank + 1));
    }
  }
  GroupOptions OptionsOf(int rank) {
    GroupOptions options;
    options.members = {{SessionId{1}, "w0", ""}, {SessionId{2}, "w1", ""}};
    options.rank = rank;
    options.host = "127.0.0.1";
    options.exchange = [this, rank](std::string address, Deadline deadline) {
      return addresses_.Exchange(rank, std::move(address), deadline);
    };
    options.read = [](Deadline) { return Status(Code::kInvalid, "nobody is to read"); };
    return options;
  }
  using Formed = Result<std::unique_ptr<CollectiveThread>>;
  std::future<Formed> Form(const GroupOptions& options) {
    return std::async(std::launch::async, [this, options] {
      return FormGroup(options, replicas[static_cast<std::size_t>(options.rank)].get());
    });
  }

  std::vector<std::unique_ptr<Replica>> replicas;

 private:
  const JobConfig config_ = Config();
  const Catalog catalog_ = Catalog::Create({{"a", {8}, {InitKind::kZeros, 0.0F}, true}}).value();
  collective::InProcessRendezvous addresses_{2};
};

TEST_CASE("who has the version gives it to who has not", "[train][replica]") {
  TwoWorkers two;
  GroupOptions first = two.OptionsOf(0), second = two.OptionsOf(1);
  second.has_version = true;
  auto one = two.Form(first), other = two.Form(second);
  REQUIRE(one.get().ok());
  REQUIRE(other.get().ok());
  for (std::size_t i = 0; i < 2; ++i) CHECK(two.replicas[0]->array(i)[7] == 2.0F);
}

TEST_CASE("where nobody has it, the first one reads it for all, if the shards have it", "[train][replica]") {
  TwoWorkers two;
  GroupOptions first = two.OptionsOf(0), second = two.OptionsOf(1);
  first.shards_have_it = second.shards_have_it = GENERATE(true, false);
  first.read = [&](Deadline) {
    std::ranges::fill(two.replicas[0]->array(0), 9.0F);
    return Status();
  };
  auto one = two.Form(first), other = two.Form(second);
  const TwoWorkers::Formed results[] = {one.get(), other.get()};
  for (const auto& result : results) CHECK(result.ok() == first.shards_have_it);
  if (first.shards_have_it) CHECK(two.replicas[1]->array(0)[7] == 9.0F);
  if (!first.shards_have_it) CHECK(results[0].status().code() == Code::kCorrupt);
}

TEST_CASE("who waits for the version hears that its generation is over", "[train][replica]") {
  TwoWorkers two;
  GroupOptions first = two.OptionsOf(0), second = two.OptionsOf(1);
  first.shards_have_it = second.shards_have_it = true;
  std::promise<void> go_on;
  first.read = [&](Deadline) {  // as if it had paused
    go_on.get_future().wait();
    return Status(Code::kStale, "too late");
  };
  std::atomic<int> looks{0};
  second.look_up = [&] { return ++looks < 5 ? Status() : Status(Code::kStale, "the round is over"); };
  auto one = two.Form(first), other = two.Form(second);
  const bool heard = other.wait_for(seconds(20)) == std::future_status::ready;
  go_on.set_value();
  CHECK(heard);
  CHECK(other.get().status().code() == Code::kStale);
  CHECK_FALSE(one.get().ok());
}

TEST_CASE("a version is waited for as long as a slow line may take", "[train][replica]") {
  CHECK(ShareMax(1000) >= seconds(600));
  constexpr std::size_t kOfSevenBillion = std::size_t{84} << 30;  // weights and the two states of adamw
  constexpr std::size_t kGigabitLine = std::size_t{100} << 20;    // bytes per second
  CHECK(ShareMax(kOfSevenBillion) > 2 * seconds(kOfSevenBillion / kGigabitLine));
}

}  // namespace
}  // namespace capstan::train
