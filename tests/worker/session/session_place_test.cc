// When weights may be copied to their place before their hash is checked.
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

// Whether the session would hand over these weights of a block of four elements.
bool HandsOver(const SessionHarness& harness, const Weights& weights, std::size_t bytes = 16) {
  return harness.session->HandsOver(SessionHarness::PeerOf(SessionHarness::ShardOf(weights.block)), weights, bytes);
}

TEST_CASE("weights may be copied to their place once work is announced, as long as they are missing there",
          "[client][pull]") {
  SessionHarness harness;
  const Slice payload = harness.Values(4, 1.0F);
  harness.Join({0});
  CHECK_FALSE(HandsOver(harness, harness.MakeWeights(0, 0, payload)));
  harness.Ready();
  harness.NothingCovered(0);
  // The session may still go back to the step before, with the weights that the application has.
  CHECK_FALSE(HandsOver(harness, harness.MakeWeights(0, 0, payload)));
  harness.SendWeights(0, 0);
  CHECK_FALSE(HandsOver(harness, harness.MakeWeights(0, 0, payload)));  // the application reads it now
  const Weights good = harness.MakeWeights(2, 0, payload);
  CHECK(HandsOver(harness, good));
  std::vector<Weights> bad(8, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{49};
  bad[2].version = Version{1};
  bad[3].block = 1;  // MakeWeights has the incarnation of the other shard
  bad[4].block = UINT32_MAX;
  bad[5].array = 1;
  bad[6].speculative = true;
  bad[7].stop = true;
  for (const Weights& weights : bad) CHECK_FALSE(HandsOver(harness, weights));
  CHECK_FALSE(HandsOver(harness, good, 12));
  CHECK_FALSE(harness.session->HandsOver(SessionHarness::kCoordinator, good, 16));
  CHECK_FALSE(harness.session->HandsOver(SessionHarness::PeerOf(0), harness.MakeView({0}), 16));
  harness.SendWeights(2, 0);
  CHECK_FALSE(HandsOver(harness, good));
}

}  // namespace
}  // namespace capstan::session
