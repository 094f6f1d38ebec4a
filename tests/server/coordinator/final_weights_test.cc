#include "server/coordinator/final_weights.h"

#include "common/wire/messages/view.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

// The final weights of a job whose only server does not answer.
class FinalHarness {
 public:
  FinalHarness() {
    View view;
    view.generation = Generation{1};
    view.step = Step{5};
    view.shards = {{0, Incarnation{7}, "tcp://127.0.0.1:1"}};
    LimitsSection limits;
    limits.stall = 100;
    limits.report = 30;
    final_weights_ =
        FinalWeights::Create(view, &catalog_, folder_.path() + "/final", limits, transport_.get(), now_).value();
  }
  // Lets time pass with ten Ticks a second, as a loop does, until there is an outcome. Returns the notices.
  std::vector<std::string> Pass(int seconds) {
    Outbox out;
    for (int i = 0; i < 10 * seconds && !final_weights_->outcome(); ++i) {
      now_ += std::chrono::milliseconds(100);
      final_weights_->Tick(now_, &out);
    }
    std::vector<std::string> lines;
    for (const Notice& notice : out.notices) lines.push_back(notice.text);
    return lines;
  }
  void StandStill(int seconds) { now_ += std::chrono::seconds(seconds); }
  const std::optional<Status>& outcome() const { return final_weights_->outcome(); }

 private:
  testing::TempFolder folder_;
  const Catalog catalog_ = Catalog::Create({{"t", {4}, {InitKind::kZeros, 0.0F}, true}}, 4).value();
  const std::unique_ptr<Transport> transport_ = CreateZmqTransport({});
  Instant now_ = std::chrono::hours(1);
  std::unique_ptr<FinalWeights> final_weights_;
};

TEST_CASE("the final weights are waited for as long as limits.stall says, and people hear of it", "[server][loops]") {
  FinalHarness harness;
  CHECK(harness.Pass(99) == std::vector<std::string>{"waiting 30 s for 1 block of the final weights",
                                                     "waiting 60 s for 1 block of the final weights",
                                                     "waiting 90 s for 1 block of the final weights"});
  CHECK(!harness.outcome());
  harness.Pass(2);
  REQUIRE(harness.outcome());
  CHECK(harness.outcome()->message() == "no block has arrived for 100 s: 1 block of the final weights is missing");
}

TEST_CASE("a pause of the coordinator is no silence of those that have the final weights", "[server][loops]") {
  FinalHarness harness;
  harness.Pass(20);
  harness.StandStill(1000);
  CHECK(harness.Pass(5).empty());
  CHECK(!harness.outcome());
}

}  // namespace
}  // namespace capstan::server
