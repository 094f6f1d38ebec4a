// Weights and gradients that travel as 16-bit numbers, and statistics that do not.
#include <cstring>
#include <limits>

#include "common/data/encoding.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

// Makes the options of a job whose blocks 0 and 2 are weights, and whose block 1 is a statistic.
ShardHarnessOptions SixteenBits(Encoding encoding, SlotIndex slots) {
  return {.slots = slots, .tensors = {4, 4, 2}, .encoding = encoding, .statistics = {1}};
}

class NarrowHarness : public ShardHarness {
 public:
  explicit NarrowHarness(Encoding encoding, SlotIndex slots = 2)
      : ShardHarness(SixteenBits(encoding, slots)), encoding_(encoding) {
    Start();
  }

  Slice Encoded(std::size_t count, float value, Encoding encoding) {
    Slice payload = Values(count, value);
    const std::vector<float> values(count, value);
    Encode(encoding, values, payload.owner->data());
    payload.size = count * BytesPerNumber(encoding);
    return payload;
  }
  void StageAs(Encoding encoding, BlockIndex block, Node node, std::uint64_t samples, float value) {
    Slice payload = Encoded(SizeOf(block), value, encoding);
    Push push = MakePush(0, block, node, samples, payload);
    push.encoding = encoding;
    FromWorker(push, std::move(payload));
  }
  Encoding EncodingOf(BlockIndex block) const { return block == 1 ? Encoding::kFp32 : encoding_; }
  // Pulls a block of this version. Returns its decoded weights, and in `arrived` the encoding in which they came.
  std::vector<float> PullAs(Encoding asked, std::uint64_t version, BlockIndex block, Encoding* arrived) {
    Forget();
    payloads.clear();
    Pull pull = MakePull(version, {block});
    pull.encoding = asked;
    FromWorker(pull);
    const std::vector<Weights> answers = Take<Weights>();
    REQUIRE(answers.size() == 1);
    *arrived = answers[0].encoding;
    REQUIRE(payloads.back().size == SizeOf(block) * BytesPerNumber(*arrived));
    REQUIRE(Hash64(payloads.back().bytes()) == answers[0].payload_hash);
    std::vector<float> values(SizeOf(block));
    Decode(*arrived, payloads.back().data, values.size(), values.data());
    return values;
  }

 private:
  Encoding encoding_;
};

TEST_CASE("leaves of 16-bit numbers make the step that their values make, and weights come back rounded",
          "[server][shard][encoding]") {
  for (const Encoding encoding : {Encoding::kBf16, Encoding::kFp16}) {
    CAPTURE(NameOf(encoding));
    NarrowHarness harness(encoding);
    for (BlockIndex block = 0; block < 3; ++block) {
      harness.StageAs(harness.EncodingOf(block), block, {0, 1}, 1, -1.0F);
      harness.StageAs(harness.EncodingOf(block), block, {1, 2}, 2, -4.0F);
    }
    harness.FromWorker(harness.MakeEnd(0, 0, 1));
    harness.FromWorker(harness.MakeEnd(0, 1, 2));
    REQUIRE(harness.shard->engine().prepared());
    harness.Commits(0);
    // The mean is (-1 - 2 * 4) / 3 = -3. Weights descend by it with rate 1; a statistic moves towards it by a tenth.
    CHECK(harness.WeightOf(0) == 3.0F);
    CHECK(harness.WeightOf(1) == -3.0F * kStatisticMomentum);
    Encoding arrived{};
    CHECK(harness.PullAs(encoding, 1, 0, &arrived) == std::vector<float>(4, 3.0F));
    CHECK(arrived == encoding);
    CHECK(harness.PullAs(encoding, 1, 1, &arrived) == std::vector<float>(4, -3.0F * kStatisticMomentum));
    CHECK(arrived == Encoding::kFp32);
    CHECK(harness.PullAs(Encoding::kFp32, 1, 2, &arrived) == std::vector<float>(2, 3.0F));
    CHECK(arrived == Encoding::kFp32);
    CHECK(harness.PullAs(encoding, 1, 2, &arrived) == std::vector<float>(2, 3.0F));
    CHECK(arrived == encoding);
  }
}

TEST_CASE("sums above leaves come as fp32, beside leaves of 16 bits", "[server][shard][encoding]") {
  NarrowHarness harness(Encoding::kBf16, 3);
  for (BlockIndex block = 0; block < 3; ++block) {
    harness.StageAs(Encoding::kFp32, block, {0, 2}, 3, -9.0F);
    harness.StageAs(harness.EncodingOf(block), block, {2, 3}, 1, -4.0F);
  }
  for (const SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(0, slot, slot == 0 ? 2 : 1));
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == 13.0F / 4);  // gradient descent with rate 1 by the mean
  CHECK(harness.WeightOf(2) == 13.0F / 4);
}

TEST_CASE("what is pulled after a Redo is what the Redo made", "[server][shard][encoding]") {
  NarrowHarness harness(Encoding::kBf16);
  for (BlockIndex block = 0; block < 3; ++block) {
    for (const SlotIndex slot : {0U, 1U}) harness.StageAs(harness.EncodingOf(block), block, {slot, slot + 1}, 1, -4.0F);
  }
  for (const SlotIndex slot : {0U, 1U}) harness.FromWorker(harness.MakeEnd(0, slot, 1));
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.Commits(0, 1);
  Encoding arrived{};
  CHECK(harness.PullAs(Encoding::kBf16, 1, 0, &arrived) == std::vector<float>(4, 2.0F));
  CHECK(harness.PullAs(Encoding::kFp32, 1, 0, &arrived) == std::vector<float>(4, 2.0F));
  CHECK(harness.PullAs(Encoding::kFp32, 1, 1, &arrived) == std::vector<float>(4, -4.0F * kStatisticMomentum));
}

TEST_CASE("numbers of another width than the job's are invalid, and a statistic's are fp32",
          "[server][shard][encoding]") {
  NarrowHarness harness(Encoding::kBf16);
  harness.StageAs(Encoding::kFp32, 0, {0, 1}, 1, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  harness.StageAs(Encoding::kFp16, 0, {0, 1}, 1, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  harness.StageAs(Encoding::kBf16, 0, {0, 2}, 1, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  harness.StageAs(Encoding::kBf16, 1, {0, 1}, 1, 1.0F);
  CHECK(harness.Refused(Code::kInvalid));
  Pull pull = harness.MakePull(0, {0});
  pull.encoding = Encoding::kFp16;
  harness.FromWorker(pull);
  CHECK(harness.Refused(Code::kInvalid));
}

TEST_CASE("a push says its loss scale: in async each its own, in sync the step's and no other",
          "[server][shard][encoding]") {
  ShardHarness async({.mode = Mode::kAsync, .slots = 2, .tensors = {4}});
  async.Start();
  std::uint64_t sequence = 0;
  for (const float scale : {1.0F, 1024.0F, 0.5F}) {
    const float before = async.WeightOf(0);
    Slice payload = async.Values(4, 2.0F * scale);
    Push push = async.MakePush(++sequence, 0, {0, 1}, 1, payload);
    push.loss_scale = scale;
    async.FromWorker(push, std::move(payload));
    CHECK(async.WeightOf(0) == before - 2.0F);
  }
  // Statistics are no gradients, so the loss scale does not apply to them.
  ShardHarness observed({.mode = Mode::kAsync, .slots = 1, .tensors = {4}, .statistics = {0}});
  observed.Start();
  Slice mean = observed.Values(4, 3.0F);
  Push observation = observed.MakePush(1, 0, {0, 1}, 1, mean);
  observation.loss_scale = 1024.0F;
  observed.FromWorker(observation, std::move(mean));
  CHECK(observed.WeightOf(0) == 3.0F * kStatisticMomentum);
  for (const float scale : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::denorm_min()}) {
    async.Forget();
    Slice payload = async.Values(4, 2.0F);
    Push push = async.MakePush(sequence + 1, 0, {0, 1}, 1, payload);
    push.loss_scale = scale;
    async.FromWorker(push, std::move(payload));
    CHECK(async.Refused(Code::kInvalid));
  }
  ShardHarness sync({.slots = 2, .tensors = {4}});
  sync.Start();
  Slice payload = sync.Values(4, 2.0F);
  Push push = sync.MakePush(0, 0, {0, 1}, 1, payload);
  push.loss_scale = 2.0F;  // the step's is 1
  sync.FromWorker(push, std::move(payload));
  CHECK(sync.Refused(Code::kInvalid));
}

}  // namespace
}  // namespace capstan::server
