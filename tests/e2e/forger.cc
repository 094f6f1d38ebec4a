// forger COORDINATOR
//
// Sends the shards of a running job forged messages until its standard input ends. It knows what any process can learn:
// like a reader it asks the coordinator for the job's tensors, shards, generation and step. It has no session, so it
// guesses some. Says "forging" when every shard has answered, and at its end what was sent and answered:
//
//   sent 4800, busy 4700, stale 40, invalid 60, other 0, with numbers 0
//
// "with numbers" counts answers that tell it the number of a generation, an incarnation or a step.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/hash.h"
#include "common/base/process_address.h"
#include "common/base/random.h"
#include "common/data/catalog.h"
#include "common/wire/messages.h"
#include "common/wire/zmq_transport.h"

namespace capstan {
namespace {

constexpr SlotIndex kSlots = 5;  // of jobs that the forger has to do with

// The job as a stranger sees it.
class Stranger {
 public:
  explicit Stranger(const std::string& coordinator)
      : coordinator_(std::move(transport_->Connect(EndpointOf(coordinator))).value()) {}

  // Asks for the job's state from time to time, and reads all answers.
  void Look() {
    const auto now = std::chrono::steady_clock::now();
    if (now >= asks_at_) {
      asks_at_ = now + std::chrono::milliseconds(50);
      Join join;
      join.worker = "stranger";
      join.nonce = 99;
      (void)transport_->Send(coordinator_, {join, {}}).ok();
    }
    transport_->Poll(std::chrono::milliseconds(10), [this](PeerId from, const Principal&, const Message& message) {
      if (const auto* view = message.header.As<View>()) Take(*view);
      if (const auto* error = message.header.As<Error>(); error != nullptr && from != coordinator_) Count(from, *error);
    });
  }

  // Sends every shard one forged message of each kind about each of its blocks.
  void Forge() {
    if (view_.phase != JobPhase::kRunning || !catalog_) return;
    const std::vector<ShardIndex> shard_of = PlaceBlocks(*catalog_, static_cast<std::uint32_t>(view_.shards.size()));
    for (const ShardAddress& shard : view_.shards) {
      for (BlockIndex block = 0; block < shard_of.size(); ++block) {
        if (shard_of[block] == shard.shard) ForgePushes(shard, block);
      }
      ForgeOthers(shard);
    }
  }

  bool all_answered() const { return !view_.shards.empty() && answered_.size() >= view_.shards.size(); }

  void Report() const {
    std::printf("sent %llu", static_cast<unsigned long long>(sent_));
    for (const char* what : {"busy", "stale", "invalid", "other", "with numbers"}) {
      const auto found = answers_.find(what);
      std::printf(", %s %llu", what, static_cast<unsigned long long>(found == answers_.end() ? 0 : found->second));
    }
    std::printf("\n");
  }

 private:
  void Take(const View& view) {
    if (!view.catalog.empty()) {
      Result<Catalog> catalog = Catalog::Create(view.catalog);
      if (catalog.ok()) catalog_ = std::make_unique<Catalog>(*std::move(catalog));
    }
    if (!view.shards.empty()) view_ = view;
  }

  void Count(PeerId from, const Error& error) {
    const bool busy = error.code == Code::kBusy, stale = error.code == Code::kStale;
    ++answers_[busy ? "busy" : stale ? "stale" : error.code == Code::kInvalid ? "invalid" : "other"];
    if (error.generation.value != 0 || error.incarnation.value != 0 || error.step.value != 0)
      ++answers_["with numbers"];
    answered_.insert(from);
  }

  SessionId Guess() { return SessionId{random_.Below(2) == 0 ? random_.Below(10) : random_.Next64()}; }

  template <class Body>
  void Send(const ShardAddress& shard, Body body, const std::vector<float>& values = {}) {
    if constexpr (requires { body.generation; }) body.generation = view_.generation;
    if constexpr (requires { body.incarnation; }) body.incarnation = shard.incarnation;
    if constexpr (requires { body.session; }) body.session = Guess();
    Slice payload;
    if (!values.empty()) {
      BufferPool pool(values.size() * sizeof(float));
      BufferRef buffer = pool.Take();
      std::memcpy(buffer->data(), values.data(), buffer->size());
      payload = WholeBuffer(std::move(buffer));
    }
    if constexpr (requires { body.payload_hash; }) body.payload_hash = Hash64(payload.bytes());
    if (transport_->Send(PeerOf(shard.endpoint), {std::move(body), std::move(payload)}).ok()) ++sent_;
  }

  void ForgePushes(const ShardAddress& shard, BlockIndex block) {
    const std::uint32_t count = catalog_->blocks()[block].count;
    const auto slot = static_cast<SlotIndex>(random_.Below(kSlots));
    const std::vector<Node> nodes = {{0, kSlots}, {slot, slot + 1}};
    const std::vector<float> wrong(count, 1000.0F), not_finite(count, std::numeric_limits<float>::quiet_NaN());
    for (const Node& node : nodes) {
      Push push;
      push.step = Step{view_.step.value + random_.Below(2)};
      push.node = node;
      push.block = block;
      Send(shard, push);
      push.samples = 3;
      Send(shard, push, wrong);
      Send(shard, push, not_finite);
    }
    UploadBlock upload;
    upload.block = block;
    upload.step = Step{random_.Below(2) == 0 ? 0 : view_.step.value + 1};
    Send(shard, upload, wrong);
  }

  void ForgeOthers(const ShardAddress& shard) {
    EndSlot end;
    end.step = Step{view_.step.value + random_.Below(2)};
    end.report.slot = static_cast<SlotIndex>(random_.Below(kSlots));
    end.report.samples = 1000000;
    end.report.loss_sum = std::numeric_limits<double>::infinity();
    Send(shard, end);
    Send(shard, CoverageQuery{{}, {}, {}, view_.step, 0, {}});
    Send(shard, RetainedSnapshots{view_.term, {}, {}, {}});
    Send(shard, RetainedSnapshots{Term{std::uint64_t{1} << 63}, {}, {}, {}});
    Send(shard, Fetch{{view_.generation, Version{view_.step.value}}, shard.shard, 0, random_.Next64()});
  }

  PeerId PeerOf(const std::string& endpoint) {
    auto found = shards_.find(endpoint);
    if (found == shards_.end()) found = shards_.emplace(endpoint, transport_->Connect(endpoint).value()).first;
    return found->second;
  }

  const std::unique_ptr<Transport> transport_ = CreateZmqTransport({});
  const PeerId coordinator_;
  std::chrono::steady_clock::time_point asks_at_;
  std::map<std::string, PeerId> shards_;  // by endpoint
  View view_;                             // the newest that names shards
  std::unique_ptr<Catalog> catalog_;
  RandomStream random_{17, 0};
  std::uint64_t sent_ = 0;
  std::map<std::string, std::uint64_t> answers_;  // by what they say
  std::set<PeerId> answered_;
};

bool InputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

int Main(const std::string& coordinator) {
  Stranger stranger(coordinator);
  bool told = false;
  while (!InputEnded()) {
    stranger.Look();
    stranger.Forge();
    if (stranger.all_answered() && !std::exchange(told, true)) {
      std::printf("forging\n");
      std::fflush(stdout);
    }
  }
  stranger.Report();
  return 0;
}

}  // namespace
}  // namespace capstan

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: forger COORDINATOR\n");
    return 2;
  }
  return capstan::Main(words[1]);
}
