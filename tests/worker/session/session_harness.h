// SessionHarness: one session, with methods that act as the coordinator, two shards and the application.
//
// Kind:   a value of one test.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job/mode.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "worker/session/session.h"

namespace capstan::session {

class SessionHarness {
 public:
  static constexpr PeerId kCoordinator{1};
  static constexpr std::uint32_t kBlockElements = 4, kShards = 2;
  static constexpr SlotIndex kSlots = 4;

  // The job has blocks 0 to `blocks` - 1 of 4 elements each. Even blocks are on shard 0, odd blocks on shard 1.
  explicit SessionHarness(Mode mode = Mode::kSync, std::size_t blocks = 4) : mode_(mode), blocks_(blocks) {
    SessionOptions options;
    options.name = "w";
    options.nonce = 5;
    options.coordinator = kCoordinator;
    options.block_elements = kBlockElements;
    options.silence_limit = std::chrono::seconds(60);
    options.connect = [this](const std::string& endpoint) -> Result<PeerId> {
      connected.push_back(endpoint);
      if (!unreachable.empty() && endpoint == unreachable) return Unreachable("no socket can be made");
      return PeerOf(endpoint.empty() ? 99 : static_cast<ShardIndex>(endpoint.back()) % 16);  // '0' is a multiple of 16
    };
    options.disconnect = [this](PeerId peer) { disconnected.push_back(peer); };
    session = std::make_unique<Session>(std::move(options));
  }

  static PeerId PeerOf(ShardIndex shard) { return PeerId{100 + shard}; }
  static ShardIndex ShardOf(BlockIndex block) { return block % kShards; }

  // ---- messages and events
  void FromCoordinator(Header header) { Handle(kCoordinator, std::move(header), {}); }
  void FromShard(ShardIndex shard, Header header, Slice payload = {}) {
    Handle(PeerOf(shard), std::move(header), std::move(payload));
  }
  void Tick(Instant later = {}) {
    now += later;
    session->Tick(now, &out_);
    Gather();
  }
  template <class T>
  std::vector<T> Take(PeerId to) {
    std::vector<T> taken;
    std::erase_if(out_.envelopes, [&](const Envelope& envelope) {
      const T* body = envelope.message.header.As<T>();
      if (envelope.to != to || body == nullptr) return false;
      taken.push_back(*body);
      return true;
    });
    return taken;
  }
  template <class T>
  std::vector<T> TakeFor(ShardIndex shard) {
    return Take<T>(PeerOf(shard));
  }
  template <class T>
  std::size_t Sent() const {
    std::size_t count = 0;
    for (const Envelope& envelope : out_.envelopes) count += envelope.message.header.Is<T>() ? 1 : 0;
    return count;
  }
  template <class T>
  std::vector<T> Events() {
    std::vector<T> taken;
    std::erase_if(events_, [&](const Session::Event& event) {
      const T* body = std::get_if<T>(&event);
      if (body != nullptr) taken.push_back(*body);
      return body != nullptr;
    });
    return taken;
  }
  // Whether no event for the application is waiting to be taken, other than StepDone.
  bool NoEvents() const {
    return std::all_of(events_.begin(), events_.end(),
                       [](const Session::Event& event) { return std::holds_alternative<Session::StepDone>(event); });
  }
  void Forget() { out_ = {}; }
  const Outbox& out() const { return out_; }

  // ---- the coordinator
  View MakeView(std::vector<SlotIndex> slots, std::uint64_t generation = 1) {
    View view;
    view.job = JobId{1, 2};
    view.term = Term{1};
    view.generation = Generation{generation};
    view.sequence = ++sequence_;
    view.session = SessionId{7};
    view.phase = JobPhase::kRunning;
    view.slot_count = kSlots;
    view.slots = std::move(slots);
    for (ShardIndex i = 0; i < kShards; ++i) {
      view.shards.push_back({i, Incarnation{50 + i}, "shard-" + std::to_string(i)});
    }
    return view;
  }
  Declaration MakeDeclaration() const {
    Declaration declaration;
    for (std::size_t i = 0; i < blocks_; ++i) {
      declaration.catalog.push_back({"t" + std::to_string(i), {4}, {InitKind::kZeros, 0.0F}, true});
    }
    declaration.numeric_class = "class";
    declaration.mode = mode_;
    declaration.steps = 5;
    declaration.silence_limit = std::chrono::seconds(60);
    declaration.speculates = speculates;
    return declaration;
  }
  void Declare() {
    session->Declare(MakeDeclaration(), now, &out_);
    Gather();
  }
  // Joins a running job and gets these slots. Forgets the messages and events until then.
  SessionHarness& Join(std::vector<SlotIndex> slots) {
    Declare();
    FromCoordinator(MakeView(std::move(slots)));
    events_.clear();
    Forget();
    return *this;
  }

  // ---- shards
  Staged MakeStaged(ShardIndex shard, std::uint64_t step, std::vector<Staged::Entry> nodes = {}) const {
    Staged staged;
    staged.generation = session->generation();
    staged.incarnation = Incarnation{50 + shard};
    staged.shard = shard;
    staged.step = Step{step};
    staged.nodes = std::move(nodes);
    staged.credit = 16;
    return staged;
  }
  Staged MakeCoverage(ShardIndex shard, std::uint64_t step, std::vector<Staged::Entry> nodes = {},
                      std::vector<SlotIndex> ended = {}) const {
    Staged staged = MakeStaged(shard, step, std::move(nodes));
    staged.full = true;
    staged.ended = std::move(ended);
    return staged;
  }
  // Answers all questions that the session has asked: every push that a question names is missing.
  void LoseAll(std::uint32_t credit = 16) {
    for (ShardIndex shard = 0; shard < kShards; ++shard) {
      for (const CoverageQuery& query : TakeFor<CoverageQuery>(shard)) {
        Staged answer = MakeStaged(shard, query.step.value);
        answer.credit = credit;
        answer.answers = query.question;
        answer.missing = query.nodes;
        FromShard(shard, answer);
      }
    }
  }
  // Makes both shards answer a CoverageQuery: they have nothing of the step yet.
  void NothingCovered(std::uint64_t step) {
    for (ShardIndex i = 0; i < kShards; ++i) FromShard(i, MakeCoverage(i, step));
  }
  Slice Values(std::size_t count, float value) {
    BufferRef buffer = pool_.Take();
    for (std::size_t i = 0; i < count; ++i) buffer.As<float>()[i] = value;
    const std::byte* data = buffer->data();
    return {std::move(buffer), data, count * sizeof(float)};
  }
  Weights MakeWeights(BlockIndex block, std::uint64_t version, const Slice& payload) const {
    Weights weights;
    weights.generation = session->generation();
    weights.incarnation = Incarnation{50 + ShardOf(block)};
    weights.version = Version{version};
    weights.asked = Version{session->step().value};
    weights.block = block;
    weights.payload_hash = Hash64(payload.bytes());
    return weights;
  }
  void SendWeights(BlockIndex block, std::uint64_t version) {
    const Slice payload = Values(4, static_cast<float>(version));
    FromShard(ShardOf(block), MakeWeights(block, version, payload), payload);
  }
  void SendAllWeights(std::uint64_t version) {
    for (BlockIndex block = 0; block < blocks_; ++block) SendWeights(block, version);
  }
  Error MakeError(ShardIndex shard, Code code, std::uint64_t step) const {
    return {code, session->generation(), Incarnation{50 + shard}, Step{step}, {}, 0, "because"};
  }

  // ---- the application
  void Ready() {
    session->Ready(now, &out_);
    Gather();
  }
  void Barrier() {
    session->Barrier(now, &out_);
    Gather();
  }
  // Begins a round whose weights have all arrived; the shards had nothing of its step. Returns the work.
  RoundWork BeginWork(std::uint64_t version = 0) {
    Ready();
    NothingCovered(version);
    SendAllWeights(version);
    const std::vector<Session::WorkReady> ready = Events<Session::WorkReady>();
    Events<Session::WeightsArrived>();
    return ready.size() == 1 ? ready[0].work : RoundWork{};
  }
  void Push(const RoundWork& work, Node node, BlockIndex block, std::uint64_t samples = 1,
            PushWay way = PushWay::kNow) {
    Slice payload = samples == 0 ? Slice{} : Values(4, static_cast<float>(block));
    const std::uint64_t hash = Hash64(payload.bytes());
    session->Push({work.round, node, block, samples, 1.0F, hash, std::move(payload), way}, now, &out_);
    Gather();
  }
  void EndSlot(const RoundWork& work, SlotIndex slot, std::string program_state = "") {
    SlotReport report;
    report.slot = slot;
    session->EndSlot(work.round, report, std::move(program_state), now, &out_);
    Gather();
  }
  void PushAll(const RoundWork& work, Node node) {
    for (BlockIndex block = static_cast<BlockIndex>(blocks_); block-- > 0;) Push(work, node, block);
    for (SlotIndex slot = node.begin; slot < node.end; ++slot) EndSlot(work, slot);
  }
  // Makes both shards acknowledge this node of all blocks, and the ends of its slots.
  void StageAll(std::uint64_t step, Node node) {
    for (ShardIndex shard = 0; shard < kShards; ++shard) {
      Staged staged = MakeStaged(shard, step);
      for (BlockIndex block = shard; block < blocks_; block += kShards) staged.nodes.push_back({block, node});
      for (SlotIndex slot = node.begin; slot < node.end; ++slot) {
        if (slot % kShards == shard) staged.ended.push_back(slot);
      }
      FromShard(shard, staged);
    }
  }

  std::unique_ptr<Session> session;
  bool speculates = true;  // what Declare says
  std::vector<std::string> connected;
  std::string unreachable;  // connections to this endpoint fail
  std::vector<PeerId> disconnected;
  Instant now = std::chrono::seconds(1000);

 private:
  void Handle(PeerId from, Header header, Slice payload) {
    session->Handle(from, {std::move(header), std::move(payload)}, now, &out_);
    Gather();
  }
  void Gather() {
    for (Session::Event& event : session->TakeEvents()) events_.push_back(std::move(event));
  }

  const Mode mode_;
  const std::size_t blocks_;
  std::uint64_t sequence_ = 0;
  BufferPool pool_{64};
  Outbox out_;
  std::vector<Session::Event> events_;
};

inline constexpr PeerId kCoordinator = SessionHarness::kCoordinator;

}  // namespace capstan::session
