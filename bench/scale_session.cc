// Measures what a worker's session in a large job pays for messages, for taking over a slot of which others have pushed
// some blocks already, and for the assignment of blocks to shards, which every member computes.
#include <memory>

#include "bench/scale_cost.h"
#include "common/base/hash.h"
#include "common/data/catalog.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "worker/session/session.h"

namespace capstan::bench {

namespace {

using session::Session;

constexpr PeerId kViews{1};

// A session with one slot, and methods that play the coordinator, the shards and the application.
class SessionRig {
 public:
  explicit SessionRig(ScaleSize size) : size_(size), blocks_(std::size_t{size.shards} * kScaleBlocksPerShard) {
    session::SessionOptions options;
    options.name = "w";
    options.nonce = 5;
    options.coordinator = kViews;
    options.block_elements = kScaleBlockElements;
    options.initial_credit = kScaleBlocksPerShard;
    options.connect = [this](const std::string&) { return ShardPeer(connected_++); };
    session_ = std::make_unique<Session>(std::move(options));
    session::Declaration declaration;
    declaration.catalog = ScaleTensors(blocks_);
    declaration.numeric_class = "class";
    declaration.steps = 1000;
    Result<Catalog> catalog = Catalog::Create(declaration.catalog, kScaleBlockElements);
    CAPSTAN_CHECK(catalog.ok());
    placement_ = PlaceBlocks(*catalog, size.shards);
    session_->Declare(std::move(declaration), now_, &out_);
    View view;
    view.job = JobId{1, 2};
    view.term = Term{1};
    view.generation = Generation{1};
    view.sequence = 1;
    view.session = SessionId{7};
    view.phase = JobPhase::kRunning;
    view.slot_count = size.workers;
    view.slots = {0};
    for (ShardIndex shard = 0; shard < size.shards; ++shard) {
      view.shards.push_back({shard, IncarnationOf(shard), "shard-" + std::to_string(shard)});
    }
    Handle(kViews, std::move(view));
    session_->Ready(now_, &out_);
    out_.Clear();
  }

  // Makes every shard report the sums that it has staged, one for each of its blocks: sums of slots 0 (ours) and 1 if
  // `whole`, otherwise of slot 1 only.
  void Covers(bool whole) {
    std::vector<Staged> answers(size_.shards);
    const Node node = whole ? Node{0, 2} : Node{1, 2};
    for (BlockIndex block = 0; block < blocks_; ++block) answers[placement_[block]].nodes.push_back({block, node});
    for (ShardIndex shard = 0; shard < size_.shards; ++shard) {
      Staged& staged = answers[shard];
      Name(shard, &staged);
      staged.full = true;
      if (shard == 0) staged.ended = {0};
      Handle(ShardPeer(shard), std::move(staged));
    }
  }
  void SendWeights(BlockIndex block) {
    const ShardIndex shard = placement_[block];
    Weights weights;
    weights.generation = Generation{1};
    weights.incarnation = IncarnationOf(shard);
    weights.block = block;
    weights.payload_hash = hash_;
    session_->Handle(ShardPeer(shard), {std::move(weights), payload_}, now_, &out_);
    (void)session_->TakeEvents();
    out_.Clear();
  }
  void Stages(BlockIndex block) {
    const ShardIndex shard = placement_[block];
    Staged staged;
    Name(shard, &staged);
    staged.nodes = {{block, {0, 1}}};
    Handle(ShardPeer(shard), std::move(staged));
    unstaged_ += session_->links().unstaged_pushes();  // the session's loop does the same
  }
  void PushesAll() {
    for (BlockIndex block = static_cast<BlockIndex>(blocks_); block-- > 0;) Pushes(block);
  }
  void Pushes(BlockIndex block) {
    session_->Push({round_, {0, 1}, block, 1, 1.0F, hash_, payload_}, now_, &out_);
    EncodeAndForget(&out_);
  }
  // Delivers all weights, so that the session reports the work of its round.
  void BeginWork() {
    Covers(false);
    for (BlockIndex block = 0; block < blocks_; ++block) SendWeightsOfWork(block);
    CAPSTAN_CHECK(round_ != 0);
  }
  void Tick() {
    now_ += std::chrono::milliseconds(50);
    session_->Tick(now_, &out_);
    out_.Clear();
  }
  std::size_t blocks() const { return blocks_; }

 private:
  static PeerId ShardPeer(ShardIndex shard) { return {100 + shard}; }
  static Incarnation IncarnationOf(ShardIndex shard) { return {50 + shard}; }
  void SendWeightsOfWork(BlockIndex block) {
    const ShardIndex shard = placement_[block];
    Weights weights;
    weights.generation = Generation{1};
    weights.incarnation = IncarnationOf(shard);
    weights.block = block;
    weights.payload_hash = hash_;
    session_->Handle(ShardPeer(shard), {std::move(weights), payload_}, now_, &out_);
    out_.Clear();
    for (const Session::Event& event : session_->TakeEvents()) {
      if (const auto* ready = std::get_if<Session::WorkReady>(&event)) round_ = ready->work.round;
    }
  }
  void Name(ShardIndex shard, Staged* staged) const {
    staged->generation = Generation{1};
    staged->incarnation = IncarnationOf(shard);
    staged->shard = shard;
    staged->credit = kScaleBlocksPerShard;
  }
  void Handle(PeerId from, Header header) {
    session_->Handle(from, {std::move(header), {}}, now_, &out_);
    out_.Clear();
  }
  Slice MakePayload() {
    BufferRef buffer = pool_.Take();
    for (std::size_t i = 0; i < kScaleBlockElements; ++i) buffer.As<float>()[i] = 0.5F;
    const std::byte* data = buffer->data();
    return {std::move(buffer), data, kScaleBlockElements * sizeof(float)};
  }

  const ScaleSize size_;
  const std::size_t blocks_;
  std::vector<ShardIndex> placement_;
  ShardIndex connected_ = 0;
  BufferPool pool_{64};
  const Slice payload_ = MakePayload();
  const std::uint64_t hash_ = Hash64(payload_.bytes());
  std::unique_ptr<Session> session_;
  Instant now_ = std::chrono::seconds(1000);
  Outbox out_;
  std::uint64_t round_ = 0;
  std::size_t unstaged_ = 0;
};

}  // namespace

std::vector<ScaleCost> SessionCosts() {
  return {
      {"session/weights", GrowsBy::kShards, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         SessionRig rig(size);
         rig.Covers(false);
         return timer.Each(rig.blocks(), [&](std::size_t i) { rig.SendWeights(static_cast<BlockIndex>(i)); });
       }},
      {"session/push", GrowsBy::kShards, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         SessionRig rig(size);
         rig.BeginWork();
         return timer.Each(rig.blocks(),
                           [&](std::size_t i) { rig.Pushes(static_cast<BlockIndex>(rig.blocks() - 1 - i)); });
       }},
      {"session/staged", GrowsBy::kShards, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         SessionRig rig(size);
         rig.BeginWork();
         rig.PushesAll();
         return timer.Each(rig.blocks(),
                           [&](std::size_t i) { rig.Stages(static_cast<BlockIndex>(rig.blocks() - 1 - i)); });
       }},
      // Times one call, in which the session handles the answers of all shards and chooses the work that remains.
      {"session/coverage", GrowsBy::kShards, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         SessionRig rig(size);
         return timer.Each(1, [&](std::size_t) { rig.Covers(true); });
       }},
      {"session/tick", GrowsBy::kShards, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         SessionRig rig(size);
         rig.Covers(false);
         return timer.Each(20, [&](std::size_t) { rig.Tick(); });
       }},
      {"catalog/place-blocks", GrowsBy::kShards, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         const Result<Catalog> catalog =
             Catalog::Create(ScaleTensors(std::size_t{size.shards} * kScaleBlocksPerShard), kScaleBlockElements);
         CAPSTAN_CHECK(catalog.ok());
         return timer.Each(100, [&](std::size_t) { (void)PlaceBlocks(*catalog, size.shards); });
       }},
  };
}

}  // namespace capstan::bench
