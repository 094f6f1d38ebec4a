// A snapshot is loaded by a different number of shards than wrote it. Each block comes from a shard that has it.
#include <algorithm>
#include <deque>
#include <map>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_reports.h"
#include "server/shard/snapshot_load.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;

constexpr SnapshotId kRetained{Generation{1}, Version{1}};

// Makes the options of one shard of a job with several small blocks and optimizer state.
ShardHarnessOptions OneOf(ShardIndex shard, std::uint32_t shard_count, const MemorySnapshotStore* found = nullptr) {
  ShardHarnessOptions options;
  options.shard = shard;
  options.shard_count = shard_count;
  options.tensors = {4, 4, 2, 3, 1, 4, 2};
  options.optimizer = OptimizerKind::kMomentum;
  options.found = found;
  return options;
}

using Shards = std::vector<std::unique_ptr<ShardHarness>>;

// Does one step on all shards of a job, with a different gradient for each block.
void DoStep(Shards* shards, std::uint64_t step, const Commit& commit) {
  for (const std::unique_ptr<ShardHarness>& harness : *shards) {
    for (BlockIndex block = 0; block < 7; ++block) {
      const float value = 1.0F + static_cast<float>(block + step);
      for (SlotIndex slot = 0; slot < 3; ++slot) harness->Stage(step, block, {slot, slot + 1}, 1, value);
    }
    for (SlotIndex slot = 0; slot < 3; ++slot) harness->FromWorker(harness->MakeEnd(step, slot));
    harness->FromCoordinator(commit);
    harness->Forget();
  }
}

Shards Begin(std::uint32_t count) {
  Shards shards;
  for (ShardIndex i = 0; i < count; ++i) {
    shards.push_back(std::make_unique<ShardHarness>(OneOf(i, count)));
    shards.back()->Start();
  }
  return shards;
}

// Starts a job of `count` shards and takes a snapshot of version 1.
Shards Writers(std::uint32_t count) {
  Shards shards = Begin(count);
  DoStep(&shards, 0, shards[0]->MakeSnapshotCommit(0));
  return shards;
}

std::vector<SnapshotPart> PartsOf(const Shards& shards) {
  std::vector<SnapshotPart> parts;
  for (const std::unique_ptr<ShardHarness>& harness : shards) {
    for (const SnapshotPart& part : harness->disk.List()) parts.push_back(part);
  }
  return parts;
}

// Returns the weights and state of every block, from the shard that has it.
std::map<BlockIndex, std::vector<std::uint64_t>> Contents(const Shards& shards) {
  std::map<BlockIndex, std::vector<std::uint64_t>> contents;
  for (const std::unique_ptr<ShardHarness>& harness : shards) {
    const BlockStore& store = harness->shard->store();
    for (std::size_t index = 0; index < store.size(); ++index) {
      for (const Slice& array : store.Arrays(index)) {
        if (array.size > 0) contents[store.blocks()[index]].push_back(Hash64(array.bytes()));
      }
    }
  }
  return contents;
}

// Delivers the messages of `reader` to shard `holder`, and the answers to `reader`. Returns how many messages were
// delivered.
std::size_t Relay(ShardHarness* reader, ShardHarness* holder, ShardIndex index) {
  std::size_t carried = 0;
  for (Envelope& envelope : reader->TakeAll(ShardHarness::PeerOf(index))) {
    holder->FromWorker(std::move(envelope.message.header), {}, ShardHarness::kOther);
    for (Envelope& answer : holder->TakeAll(ShardHarness::kOther)) {
      reader->FromWorker(std::move(answer.message.header), std::move(answer.message.payload),
                         ShardHarness::PeerOf(index));
    }
    ++carried;
  }
  return carried;
}

void RelayAll(ShardHarness* reader, Shards* holders) {
  reader->Tick();
  for (bool more = true; more;) {
    more = false;
    for (ShardIndex i = 0; i < holders->size(); ++i) more = Relay(reader, (*holders)[i].get(), i) > 0 || more;
  }
}

bool IsServing(ShardHarness* harness) {
  return harness->Take<ResetDone>(kCoordinator).size() == 1 && harness->shard->serving();
}

// Returns the reason in the ResetBad by which the shard reports that it cannot load the snapshot. There must be one.
std::string Complaint(ShardHarness* harness) {
  const std::vector<ResetBad> bad = harness->Take<ResetBad>(kCoordinator);
  REQUIRE(bad.size() == 1);
  CHECK(harness->Take<ResetDone>(kCoordinator).empty());
  CHECK(!harness->shard->serving());
  return bad[0].reason;
}

bool Mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

TEST_CASE("any number of shards loads what any number wrote, and goes on with the same bits", "[server][snapshot]") {
  for (const std::uint32_t before : {1U, 2U, 3U}) {
    for (const std::uint32_t after : {1U, 2U, 3U, 5U}) {
      INFO(before << " shards, then " << after);
      Shards writers = Writers(before);
      const std::vector<SnapshotPart> parts = PartsOf(writers);
      REQUIRE(parts.size() == before);
      const auto contents = Contents(writers);
      REQUIRE(contents.size() == 7);
      DoStep(&writers, 1, writers[0]->MakeCommit(1));

      Shards readers;
      for (ShardIndex i = 0; i < after; ++i) {
        readers.push_back(std::make_unique<ShardHarness>(OneOf(i, after, i < before ? &writers[i]->disk : nullptr)));
        readers[i]->FromCoordinator(readers[i]->MakeResetTo(2, parts));
        readers[i]->generation = Generation{2};
      }
      for (const std::unique_ptr<ShardHarness>& reader : readers) {
        RelayAll(reader.get(), &writers);
        REQUIRE(IsServing(reader.get()));
        CHECK(reader->shard->version() == Version{1});
      }
      CHECK(Contents(readers) == contents);
      DoStep(&readers, 1, readers[0]->MakeCommit(1));
      CHECK(Contents(readers) == Contents(writers));
    }
  }
}

TEST_CASE("a directory that has all parts asks nobody", "[server][snapshot]") {
  const Shards writers = Writers(2);
  MemorySnapshotStore both;
  for (const std::unique_ptr<ShardHarness>& writer : writers) both.AddPartsOf(writer->disk);
  ShardHarness reader(OneOf(0, 1, &both));
  reader.FromCoordinator(reader.MakeResetTo(2, both.List()));
  CHECK(IsServing(&reader));
  CHECK(reader.Silent());
}

TEST_CASE("shards serve the parts they have before they serve a generation", "[server][snapshot]") {
  const Shards writers = Writers(2);
  const std::vector<SnapshotPart> parts = PartsOf(writers);
  Shards holders;
  for (ShardIndex i : {0U, 1U}) {
    holders.push_back(std::make_unique<ShardHarness>(OneOf(i, 3, &writers[i]->disk)));
    holders[i]->FromCoordinator(holders[i]->MakeResetTo(2, parts));  // each lacks the other's part
    CHECK(!holders[i]->shard->serving());
  }
  ShardHarness reader(OneOf(2, 3));
  reader.FromCoordinator(reader.MakeResetTo(2, parts));
  RelayAll(&reader, &holders);
  CHECK(IsServing(&reader));
}

TEST_CASE("async: sequence numbers, ends and reports go to the shards that are their slots' homes now",
          "[server][snapshot][async]") {
  const auto options = [](ShardIndex shard, std::uint32_t count, const MemorySnapshotStore* found) {
    return ShardHarnessOptions{.mode = Mode::kAsync, .shard = shard, .shard_count = count, .found = found};
  };
  Shards writers;
  for (ShardIndex i : {0U, 1U}) {
    writers.push_back(std::make_unique<ShardHarness>(options(i, 2, nullptr)));
    ShardHarness& harness = *writers.back();
    harness.Start();
    for (BlockIndex block : {0U, 1U, 2U}) {
      for (SlotIndex slot : {0U, 1U, 2U}) harness.Stage(1, block, {slot, slot + 1}, 1, 1.0F);
      harness.Stage(2, block, {1, 2}, 1, 1.0F);
    }
    for (SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(1, slot, 20 + slot));
    harness.FromWorker(harness.MakeEnd(2, 1, 30));
    harness.FromCoordinator(harness.MakePin(0));
  }
  const std::vector<SnapshotPart> parts = PartsOf(writers);
  REQUIRE(parts.size() == 2);
  for (const std::uint32_t count : {1U, 3U}) {
    for (ShardIndex i = 0; i < count; ++i) {
      INFO("shard " << i << " of " << count);
      ShardHarness reader(options(i, count, i < 2 ? &writers[i]->disk : nullptr));
      reader.FromCoordinator(reader.MakeResetTo(2, parts));
      RelayAll(&reader, &writers);
      REQUIRE(IsServing(&reader));
      reader.Tick(seconds(1));
      const Progress progress = reader.Take<Progress>(kCoordinator).at(0);
      CHECK(progress.clocks == std::vector<SequenceNumber>{{1}, {2}, {1}});
      std::vector<std::uint64_t> samples;
      for (const Progress::Entry& entry : progress.reports) samples.push_back(entry.report.samples);
      if (count == 1) CHECK(samples == std::vector<std::uint64_t>{20, 21, 22, 30});
      if (count == 3 && i == 0) CHECK(samples == std::vector<std::uint64_t>{20});
      if (count == 3 && i == 1) CHECK(samples == std::vector<std::uint64_t>{21, 30});
      if (count == 3 && i == 2) CHECK(samples == std::vector<std::uint64_t>{22});
    }
  }
}

// ---- messages of other shards ---------------------------------------------------------------------------------------

// One of three shards, with an empty directory, loads what two shards wrote. The test delivers their answers.
struct Loading {
  explicit Loading(ShardIndex shard = 2) : reader(OneOf(shard, 3)) {
    reader.FromCoordinator(reader.MakeResetTo(2, parts));
    reader.generation = Generation{2};
    reader.Tick();
  }
  // Returns the two shards' answers to the reader's new requests.
  std::vector<std::pair<ShardIndex, Message>> Answers() {
    std::vector<std::pair<ShardIndex, Message>> answers;
    for (ShardIndex i : {0U, 1U}) {
      for (Envelope& asked : reader.TakeAll(ShardHarness::PeerOf(i))) {
        writers[i]->FromWorker(std::move(asked.message.header), {}, ShardHarness::kOther);
      }
      for (Envelope& answer : writers[i]->TakeAll(ShardHarness::kOther))
        answers.push_back({i, std::move(answer.message)});
    }
    return answers;
  }
  void Give(const std::pair<ShardIndex, Message>& answer) {
    GiveFrom(ShardHarness::PeerOf(answer.first), answer.second);
  }
  void GiveFrom(PeerId from, const Message& message) { reader.FromWorker(message.header, message.payload, from); }
  // Delivers the headers, which are requested first.
  void GiveHeaders() {
    for (const auto& answer : Answers()) Give(answer);
  }

  // Lets so much time pass without answers that the reader asks what was lost, and delivers the answers to that.
  void Ask() {
    reader.Tick(seconds(7));
    GiveHeaders();
  }

  Shards writers = Writers(2);
  std::vector<SnapshotPart> parts = PartsOf(writers);
  ShardHarness reader;
};

Fetched& BodyOf(Message* message) { return message->header.Get<Fetched>(); }

// Makes the hash match the payload.
void Vouch(Message* message) { BodyOf(message).payload_hash = Hash64(message->payload.bytes()); }

TEST_CASE("a block that is not what was written is not served", "[server][snapshot]") {
  Loading loading;
  loading.GiveHeaders();
  auto answers = loading.Answers();
  REQUIRE(!answers.empty());
  answers[0].second.payload = loading.reader.Values(answers[0].second.payload.size / sizeof(float), 77.0F);
  Vouch(&answers[0].second);
  loading.Give(answers[0]);
  CHECK(Mentions(Complaint(&loading.reader), "block " + std::to_string(BodyOf(&answers[0].second).block) + " of part"));
}

TEST_CASE("a block of another size, or an array that it does not have, is not taken", "[server][snapshot]") {
  for (const int change : {0, 1, 2}) {
    Loading loading;
    loading.GiveHeaders();
    auto answers = loading.Answers();
    Message& message = answers[0].second;
    if (change == 0) message.payload.size -= sizeof(float);
    if (change == 1) message.payload = {};
    if (change == 2) BodyOf(&message).array = 2;
    Vouch(&message);
    loading.Give(answers[0]);
    CHECK(!Complaint(&loading.reader).empty());
  }
}

TEST_CASE("a header that is not the manifest's, or no header at all, is not believed", "[server][snapshot]") {
  for (const int change : {0, 1, 2, 3}) {
    Loading loading;
    auto answers = loading.Answers();
    REQUIRE(BodyOf(&answers[0].second).block == kFetchHeader);
    Message& message = answers[0].second;
    if (change == 0) message.payload.size /= 2;
    if (change == 1) message.payload = {};
    if (change == 2) message.payload = answers[1].second.payload;  // the other part's
    std::string text(reinterpret_cast<const char*>(message.payload.data), message.payload.size);
    if (change == 3) {  // correct in itself, but of another step
      SnapshotHeader header = DecodeSnapshotHeader(text).value();
      ++header.parameters.updates;
      text = EncodeSnapshotHeader(header).value();
      message.payload.data = reinterpret_cast<const std::byte*>(text.data());
      message.payload.size = text.size();
    }
    Vouch(&message);
    loading.Give(answers[0]);
    CHECK(!Complaint(&loading.reader).empty());
  }
}

TEST_CASE("a header that is longer than a message may be comes in pieces, lost ones again",
          "[server][snapshot][limits]") {
  ShardHarnessOptions many{.mode = Mode::kAsync, .slots = kSlotsMax};
  many.tensors.assign(530, 4);
  Shards holders;
  holders.push_back(std::make_unique<ShardHarness>(many));
  ShardHarness& holder = *holders.front();
  holder.Start().FromCoordinator(holder.MakePin(0));
  many.shard = 1;
  many.shard_count = 2;
  ShardHarness reader(many);
  reader.FromCoordinator(reader.MakeResetTo(2, holder.disk.List()));
  reader.Tick();
  const std::vector<Envelope> asked = reader.TakeAll(ShardHarness::PeerOf(0));
  REQUIRE(asked.size() == 1);
  holder.FromWorker(asked[0].message.header, {}, ShardHarness::kOther);
  std::vector<Envelope> pieces = holder.TakeAll(ShardHarness::kOther);
  REQUIRE(pieces.size() > 1);
  for (const Envelope& piece : pieces) CHECK(piece.message.payload.size <= kHeaderPieceBytes);
  reader.FromWorker(pieces.back().message.header, pieces.back().message.payload, ShardHarness::PeerOf(0));
  CHECK(reader.TakeAll(ShardHarness::PeerOf(0)).empty());  // the first one is lost
  reader.Tick(std::chrono::seconds(10));
  RelayAll(&reader, &holders);
  CHECK(IsServing(&reader));
}

TEST_CASE("a header of no pieces, or of too many, is refused", "[server][snapshot][limits]") {
  for (const std::uint32_t arrays : {0U, 1000000U}) {
    Loading loading;
    auto headers = loading.Answers();
    BodyOf(&headers.at(0).second).arrays = arrays;
    loading.Give(headers[0]);
    CHECK(Mentions(Complaint(&loading.reader), "pieces that cannot be"));
  }
}

TEST_CASE("a shard that does not have the part, or finds it damaged, ends the load with what it says",
          "[server][snapshot]") {
  Loading gone;
  REQUIRE(gone.writers[0]->disk.Remove(kRetained, 0).ok());
  gone.GiveHeaders();
  CHECK(Mentions(Complaint(&gone.reader), "part 0 of snapshot 1"));

  Loading damaged(0);
  REQUIRE(damaged.writers[0]->disk.DamageNewest());  // block 0, which shard 0 has in any number of shards
  damaged.GiveHeaders();
  for (const auto& answer : damaged.Answers()) damaged.Give(answer);
  CHECK(Mentions(Complaint(&damaged.reader), "block 0 is not what was written"));
}

TEST_CASE("answers that are doubled, late, foreign or of another snapshot change nothing", "[server][snapshot]") {
  Loading loading;
  auto headers = loading.Answers();
  REQUIRE(headers.size() == 2);
  loading.GiveFrom(ShardHarness::kWorker, headers[0].second);  // not the peer that was asked
  loading.GiveFrom(ShardHarness::PeerOf(1), headers[0].second);
  CHECK(loading.Answers().empty());  // no block is requested yet
  Message other = headers[0].second;
  BodyOf(&other).snapshot.version = Version{9};
  BodyOf(&other).failure = "gone";
  loading.GiveFrom(ShardHarness::PeerOf(0), other);
  Message beyond = headers[0].second;
  BodyOf(&beyond).part = 9;
  BodyOf(&beyond).failure = "gone";
  loading.GiveFrom(ShardHarness::PeerOf(0), beyond);
  Message unasked = headers[0].second;
  BodyOf(&unasked).block = 6;
  BodyOf(&unasked).failure = "gone";
  loading.GiveFrom(ShardHarness::PeerOf(0), unasked);
  CHECK(loading.reader.Take<ResetBad>(kCoordinator).empty());
  for (const auto& header : headers) {
    loading.Give(header);
    loading.Give(header);  // doubled
  }
  const auto blocks = loading.Answers();
  REQUIRE(!blocks.empty());
  for (const auto& block : blocks) {
    loading.Give(block);
    loading.Give(block);
  }
  CHECK(IsServing(&loading.reader));
  const std::uint64_t digest = loading.reader.shard->store().Digest();
  for (auto block : blocks) {
    loading.Give(block);  // late
    BodyOf(&block.second).failure = "gone";
    loading.Give(block);
  }
  CHECK(loading.reader.shard->serving());
  CHECK(loading.reader.shard->store().Digest() == digest);
  CHECK(loading.reader.Take<ResetBad>(kCoordinator).empty());
}

TEST_CASE("what is damaged in flight between two shards is asked for again", "[server][snapshot]") {
  Loading loading;
  const auto damaged = [&](Message message) {
    ++BodyOf(&message).payload_hash;  // the payload is not what was sent
    return message;
  };
  for (const auto& header : loading.Answers()) loading.Give({header.first, damaged(header.second)});
  CHECK(loading.Answers().empty());
  loading.Ask();
  loading.GiveHeaders();
  for (const auto& block : loading.Answers()) loading.Give({block.first, damaged(block.second)});
  loading.Ask();
  for (const auto& block : loading.Answers()) loading.Give(block);
  CHECK(loading.reader.Take<ResetBad>(kCoordinator).empty());
  CHECK(IsServing(&loading.reader));
}

TEST_CASE("what is not answered is asked for again", "[server][snapshot]") {
  Loading loading;
  (void)loading.Answers();  // lost
  loading.Ask();
  loading.GiveHeaders();
  auto blocks = loading.Answers();
  REQUIRE(blocks.size() >= 2);  // a block's weights and its state
  loading.Give(blocks[0]);      // the others are lost
  loading.Ask();
  blocks = loading.Answers();
  REQUIRE(!blocks.empty());
  for (const auto& block : blocks) loading.Give(block);
  CHECK(IsServing(&loading.reader));
}

TEST_CASE("holders that bring a block every 1.2 s are asked for none of them twice", "[server][snapshot]") {
  ShardHarnessOptions options;
  options.tensors.assign(30, 4);
  options.window_blocks = 100;
  ShardHarness writer(options);
  writer.Start();
  writer.CompleteStep(0, 1.0F);
  writer.FromCoordinator(writer.MakeSnapshotCommit(0));
  ShardHarness reader(options);
  reader.FromCoordinator(reader.MakeResetTo(2, writer.disk.List()));
  reader.Tick();
  std::map<BlockIndex, int> asked;
  std::deque<Envelope> line;
  for (int tenth = 1; tenth < 600 && !reader.shard->serving(); ++tenth) {
    reader.Tick(std::chrono::milliseconds(100));
    for (Envelope& envelope : reader.TakeAll(ShardHarness::PeerOf(0))) {
      const auto& fetch = envelope.message.header.Get<Fetch>();
      if (fetch.block < kFetchQuestion) ++asked[fetch.block];
      writer.FromWorker(fetch, {}, ShardHarness::kOther);
    }
    for (Envelope& answer : writer.TakeAll(ShardHarness::kOther)) line.push_back(std::move(answer));
    if (tenth % 12 != 0 || line.empty()) continue;
    reader.FromWorker(line.front().message.header, line.front().message.payload, ShardHarness::PeerOf(0));
    line.pop_front();
  }
  CHECK(reader.shard->serving());
  CHECK(asked.size() == 30);
  for (const auto& [block, times] : asked) CHECK((times == 1));
}

TEST_CASE("a snapshot of which nobody has a part is refused at once, whatever else is here", "[server][snapshot]") {
  const Shards writers = Writers(2);
  ShardHarness reader(OneOf(0, 1, &writers[0]->disk));
  Reset reset = reader.MakeResetTo(2, PartsOf(writers));
  reset.sources[1].endpoint.clear();
  reader.FromCoordinator(reset);
  CHECK(Mentions(Complaint(&reader), "nobody has part 1 of snapshot 1"));
  reset = reader.MakeResetTo(3, PartsOf(writers));  // the other directory is brought back
  reader.FromCoordinator(reset);
  Relay(&reader, writers[1].get(), 1);
  Relay(&reader, writers[1].get(), 1);
  CHECK(IsServing(&reader));
}

TEST_CASE("a newer generation's Reset ends a load, and late answers of it are not taken", "[server][snapshot]") {
  Loading loading;
  loading.GiveHeaders();
  const auto late = loading.Answers();
  REQUIRE(!late.empty());
  loading.reader.FromCoordinator(loading.reader.MakeReset(3));
  const std::vector<ResetDone> done = loading.reader.Take<ResetDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{3});
  const std::uint64_t digest = loading.reader.shard->store().Digest();
  for (const auto& answer : late) loading.Give(answer);
  CHECK(loading.reader.shard->store().Digest() == digest);
  CHECK(loading.reader.shard->version() == Version{0});
  CHECK(loading.reader.Take<ResetDone>(kCoordinator).empty());
}

TEST_CASE("a snapshot that does not fit the job is refused, and what does not fit is named", "[server][snapshot]") {
  const Shards writers = Writers(1);
  const std::vector<SnapshotPart> parts = PartsOf(writers);
  struct Misfit {
    const char* word;
    ShardHarnessOptions options;
    void (*change)(Reset*);
  };
  ShardHarnessOptions other_rule = OneOf(0, 1, &writers[0]->disk), other_slots = OneOf(0, 1, &writers[0]->disk);
  other_rule.optimizer = OptimizerKind::kSgd;
  other_slots.slots = 2;
  const Misfit misfits[] = {
      {"another job", OneOf(0, 1, &writers[0]->disk),
       [](Reset* reset) {
         reset->job = JobId{9, 9};
       }},
      {"another model", OneOf(0, 1, &writers[0]->disk), [](Reset* reset) { reset->catalog[0].name = "else"; }},
      {"another optimizer", other_rule, [](Reset*) {}},
      {"another number of slots", other_slots, [](Reset*) {}},
  };
  for (const Misfit& misfit : misfits) {
    ShardHarness reader(misfit.options);
    Reset reset = reader.MakeResetTo(2, parts);
    misfit.change(&reset);
    reader.FromCoordinator(reset);
    const std::string reason = Complaint(&reader);
    INFO(reason);
    // The shard may find first that a block has other arrays than the job's block. Then this is the reason that it
    // reports.
    CHECK((Mentions(reason, misfit.word) || Mentions(reason, "the job's has")));
  }
}

TEST_CASE("a bounded number of blocks is asked for at a time", "[server][snapshot]") {
  ShardHarnessOptions options;
  options.tensors.assign(100, 4);
  options.window_blocks = 100;
  ShardHarness writer(options);
  writer.Start();
  writer.CompleteStep(0, 1.0F);
  writer.FromCoordinator(writer.MakeSnapshotCommit(0));
  REQUIRE(writer.disk.List().size() == 1);
  ShardHarness reader(options);
  reader.FromCoordinator(reader.MakeResetTo(2, writer.disk.List()));
  reader.Tick();
  std::size_t rounds = 0, most = 0;
  for (std::size_t carried = 1; carried > 0; ++rounds) {
    carried = 0;
    std::vector<Envelope> answers;
    for (Envelope& asked : reader.TakeAll(ShardHarness::PeerOf(0))) {
      ++carried;
      writer.FromWorker(std::move(asked.message.header), {}, ShardHarness::kOther);
    }
    most = std::max(most, carried);
    for (Envelope& answer : writer.TakeAll(ShardHarness::kOther)) {
      reader.FromWorker(std::move(answer.message.header), std::move(answer.message.payload), ShardHarness::PeerOf(0));
    }
  }
  CHECK(most == SnapshotLoad::kFetchesMax);
  CHECK(rounds >= 100 / SnapshotLoad::kFetchesMax);
  CHECK(IsServing(&reader));
  CHECK(reader.shard->store().Digest() == writer.shard->store().Digest());
}

TEST_CASE("a request for a part that is not here, or a block it does not have, is answered so", "[server][snapshot]") {
  const Shards writers = Writers(2);
  ShardHarness& holder = *writers[0];
  const auto ask = [&](Fetch fetch) {
    fetch.key = holder.MakeReset().fetch_key;
    holder.FromWorker(fetch, {}, ShardHarness::kOther);
    const std::vector<Fetched> answers = holder.Take<Fetched>(ShardHarness::kOther);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].snapshot == fetch.snapshot);
    CHECK(answers[0].part == fetch.part);
    CHECK(answers[0].block == fetch.block);
    return answers[0].failure;
  };
  CHECK(!ask({kRetained, 1, kFetchHeader}).empty());
  CHECK(!ask({{Generation{1}, Version{2}}, 0, kFetchHeader}).empty());
  CHECK(!ask({kRetained, 0, 77}).empty());
  CHECK(ask({kRetained, 0, kFetchHeader}).empty());
}

}  // namespace
}  // namespace capstan::server
