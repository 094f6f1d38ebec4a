// The rules of a worker in mode allreduce, without a network: which commands follow from which events.
#include "worker/allreduce/all_reduce_core.h"

#include <functional>

#include "tests/catch.h"
#include "worker/allreduce/member_patience.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

constexpr Instant kNow = std::chrono::hours(1);
const Status kLost = Unreachable("w1 is gone");
const Status kOver(Code::kStale, "the round is over");

Catalog FourBlocks() {
  std::vector<TensorSpec> tensors;
  for (const char* name : {"a", "b", "c", "d"}) tensors.push_back({name, {4}, {InitKind::kZeros, 0.0F}, true});
  return Catalog::Create(tensors, 4).value();
}

// ---- commands as words

const char* NameOf(GroupState state) {
  constexpr const char* kNames[] = {"none", "offered", "formed", "broken", "lost"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string Word(const ReportGroup& report) {
  return std::string("report ") + NameOf(report.state) + " " + std::to_string(report.generation.value) +
         (report.state == GroupState::kOffered ? " " + report.text : "");
}
std::string Word(const PublishVersion&) { return "publish"; }
std::string Word(const Meet& meet) {
  return "meet " + std::to_string(meet.rank) + " of " + std::to_string(meet.members.size());
}
std::string Word(const ConnectMembers& connect) {
  std::string word = "connect";
  for (const std::string& address : connect.addresses) word += " " + address;
  return word;
}
std::string Word(const ReadVersion& read) {
  return "read " + std::to_string(read.version.value) + " of " + std::to_string(read.generation.value);
}
std::string Word(const ShareVersion& share) {
  return "share from " + std::to_string(share.root) + (share.receives ? " to me" : "");
}
std::string Word(const FormDevices& form) { return "devices " + std::to_string(form.generation.value); }
std::string Word(const EndGroup& end) { return end.abort ? "abort" : "end"; }
std::string Word(const Notify&) { return "notify"; }
std::string Word(const OpenSlot& slot) {
  constexpr const char* kUses[] = {"none", "replace", "add"};
  return std::string("slot ") + kUses[static_cast<std::size_t>(slot.use)] + (slot.zero ? " zero" : "");
}
std::string Word(const ReduceSamples& reduce) { return "reduce samples " + std::to_string(reduce.samples); }
std::string Word(const ReduceBucket& reduce) { return "reduce " + std::to_string(reduce.bucket); }
std::string Word(const AwaitSamples&) { return "await samples"; }
std::string Word(const AwaitBucket& await) { return "await " + std::to_string(await.bucket); }
std::string Word(const BeginUpdate& begin) {
  return "begin update " + std::to_string(begin.parameters.updates) + " of " + std::to_string(begin.samples);
}
std::string Word(const UpdateBucket& update) { return "update " + std::to_string(update.bucket); }
std::string Word(const FinishUpdate& finish) { return "finish " + std::to_string(finish.step.value); }
std::string Word(const UploadBlocks& upload) {
  std::string word = "upload";
  for (const BlockIndex block : upload.blocks) word += " " + std::to_string(block);
  return word;
}
std::string Word(const ReportSlot& slot) {
  return "ended " + std::to_string(slot.report.slot) + " hash " + std::to_string(slot.report.replica_hash);
}

std::string Words(const AllReduceCommands& commands) {
  std::string words;
  for (const AllReduceCommand& command : commands) {
    words += (words.empty() ? "" : ", ") + std::visit([](const auto& body) { return Word(body); }, command);
  }
  return words;
}

// ---- a worker

session::StepTerms Terms(std::uint64_t version, std::uint64_t made_in, bool held = false) {
  session::StepTerms terms;
  terms.version = Version{version};
  terms.made_in = Generation{made_in};
  terms.on_shards = held;
  return terms;
}

SlotReport Ended(SlotIndex slot, std::uint64_t samples = 0) {
  SlotReport report;
  report.slot = slot;
  report.samples = samples;
  return report;
}

// A worker that is a member of a group of two, and computes slots 2 and 3. Its functions return the core's commands as
// words.
struct Worker {
  explicit Worker(int of_rank = 0) : rank(of_rank) {}

  session::WorkReady Round(std::uint64_t generation, const session::StepTerms& terms) const {
    session::WorkReady ready;
    ready.work.generation = Generation{generation};
    ready.work.step = Step{terms.version.value};
    ready.work.slots = {2, 3};
    ready.work.updates = 5;
    ready.work.terms = terms;
    ready.work.group = {{"w0", ""}, {"w1", ""}};
    ready.work.rank = rank;
    return ready;
  }
  std::string Begin(std::uint64_t generation, const session::StepTerms& terms) {
    core.BeginRound(Round(generation, terms));
    return Words(core.Settle(kNow));
  }
  session::GroupKnown Known(const std::string& first, const std::string& second) const {
    return {core.generation(), {{"w0", first}, {"w1", second}}, rank};
  }
  // Connects to a group whose members offered these texts: "+" or "-" (has the version or not), then the address.
  std::string Connect(const std::string& first, const std::string& second) {
    (void)core.OfferAddress(rank == 0 ? first.substr(1) : second.substr(1));
    (void)core.TakeGroup(Known(first, second));
    return Words(core.Connected(kNow));
  }
  // Forms the group of generation 3. No member had version 4, so this worker reads it from the shards.
  void Form(bool on_devices = false) {
    (void)Begin(3, Terms(4, 0, true));
    (void)Connect("-a", "-b");
    (void)core.VersionRead();
    (void)core.VersionShared();
    REQUIRE(Words(core.DevicesFormed(on_devices)) == "report formed 3");
    REQUIRE(core.is_computing());
  }
  std::string Slot(SlotIndex slot, std::uint64_t samples) {
    std::string words = Words(core.BeginSlot(samples));
    for (BlockIndex block = 4; block-- > 0;) {
      if (const std::string more = Words(core.FinishBlock(block)); !more.empty()) words += ", " + more;
    }
    if (const std::string more = Words(core.EndSlot(Ended(slot, samples))); !more.empty()) words += ", " + more;
    return words;
  }
  std::string Slots() {
    const std::string first = Slot(2, 7);
    return first + ", " + Slot(3, 4);
  }
  // Goes on from the sum of the samples to the next version.
  std::string Build(StepAction action = StepAction::kApply) {
    std::string words = Words(core.SamplesReduced(20));
    words += ", " + Words(core.BucketReduced());
    words += ", " + Words(core.BucketReduced());
    return words + ", " + Words(core.VersionBuilt({action, 1.5, 99}));
  }

  const Catalog catalog = FourBlocks();
  const int rank;
  AllReduceCore core{catalog, CutBuckets(catalog, 2 * 4 * sizeof(float)), 64};
};

// ---- forming a group

TEST_CASE("where no member has the version, the first one reads it from the shards for all", "[train][replica]") {
  Worker first(0), second(1);
  for (Worker* worker : {&first, &second}) {
    CHECK(worker->Begin(3, Terms(4, 2, true)) == "end, meet " + std::to_string(worker->rank) + " of 2");
    CHECK(Words(worker->core.OfferAddress("x")) == "report offered 3 -x");
    CHECK(Words(worker->core.TakeGroup(worker->Known("-x", "-y"))) == "connect x y");
  }
  CHECK(Words(first.core.Connected(kNow)) == "read 4 of 3");
  CHECK(Words(first.core.VersionRead()) == "share from 0 to me");
  CHECK(Words(second.core.Connected(kNow)) == "share from 0 to me");
  CHECK(Words(second.core.VersionShared()) == "devices 3");
  CHECK(Words(second.core.DevicesFormed(false)) == "report formed 3");
  CHECK(second.core.is_computing());
  CHECK(second.core.status().ok());
}

TEST_CASE("the first member that has the version sends it to the others", "[train][replica]") {
  Worker worker;
  worker.Form();
  (void)worker.Slots();
  (void)worker.Build();
  (void)worker.Begin(3, Terms(5, 3));  // it has version 5 now
  SECTION("this worker") {
    CHECK(worker.Begin(4, Terms(5, 3)) == "end, meet 0 of 2");
    CHECK(Words(worker.core.OfferAddress("x")) == "report offered 4 +x");
    CHECK(Words(worker.core.TakeGroup(worker.Known("+x", "-y"))) == "connect x y");
    CHECK(Words(worker.core.Connected(kNow)) == "share from 0");
  }
  SECTION("another one") {
    (void)worker.Begin(4, Terms(6, 3));
    CHECK(worker.Connect("-x", "+y") == "share from 1 to me");
  }
  SECTION("no member needs it") {
    (void)worker.Begin(4, Terms(5, 3));
    CHECK(worker.Connect("+x", "+y") == "devices 4");
  }
}

TEST_CASE("a version that is nowhere any more is reported as lost", "[train][replica]") {
  Worker worker(1);
  (void)worker.Begin(3, Terms(4, 2, false));
  CHECK(worker.Connect("-x", "-y") == "abort, report lost 3, notify");
  CHECK_THAT(worker.core.status().message(), Contains("no worker has version 4 any more"));
}

TEST_CASE("a member that was given up waits for another generation", "[train][replica]") {
  Worker worker;
  session::WorkReady ready = worker.Round(3, Terms(4, 2));
  ready.work.group.clear();
  worker.core.BeginRound(ready);
  CHECK(Words(worker.core.Settle(kNow)).empty());
  CHECK(worker.core.awaits_generation());
  CHECK(Words(worker.core.EndRound(kOver)).empty());
  CHECK(worker.core.is_idle());
  CHECK(worker.core.status().code() == Code::kStale);
}

TEST_CASE("addresses that do not come in time break the group", "[train][replica]") {
  Worker worker;
  (void)worker.Begin(3, Terms(4, 2));
  (void)worker.core.OfferAddress("x");
  CHECK(worker.core.Tick(kNow + kMeetMax - seconds(1)).empty());
  CHECK(Words(worker.core.Tick(kNow + kMeetMax)) == "end, report broken 3, notify");
  CHECK(worker.core.Tick(kNow + 2 * kMeetMax).empty());
}

TEST_CASE("a group of other members is not this round's", "[train][replica]") {
  Worker worker;
  (void)worker.Begin(3, Terms(4, 2));
  (void)worker.core.OfferAddress("x");
  session::GroupKnown known = worker.Known("-x", "-y");
  SECTION("of another generation") {
    known.generation = Generation{2};
    CHECK(worker.core.TakeGroup(known).empty());
    CHECK(worker.core.awaits_addresses());
  }
  SECTION("of another size") {
    known.members.pop_back();
    CHECK(Words(worker.core.TakeGroup(known)) == "end");
    CHECK(worker.core.status().code() == Code::kStale);
  }
  SECTION("with this worker at another place") {
    known.rank = 1;
    CHECK(Words(worker.core.TakeGroup(known)) == "end");
  }
  SECTION("without an address") {
    known.members[1].address.clear();
    CHECK(Words(worker.core.TakeGroup(known)) == "end, report broken 3, notify");
  }
}

TEST_CASE("a group that fails while it is formed is reported, unless its generation is over", "[train][replica]") {
  const int stage = GENERATE(0, 1, 2, 3, 4, 5);
  const auto reach = [&](Worker& worker) {
    (void)worker.Begin(3, Terms(4, 2, true));
    if (stage > 0) (void)worker.core.OfferAddress("x");
    if (stage > 1) (void)worker.core.TakeGroup(worker.Known("-x", "-y"));
    if (stage > 2) (void)worker.core.Connected(kNow);
    if (stage > 3) (void)worker.core.VersionRead();
    if (stage > 4) (void)worker.core.VersionShared();
    REQUIRE(worker.core.is_settling());
  };
  const std::string end = stage >= 2 && stage <= 4 ? "abort" : "end";
  CAPTURE(stage);
  Worker broken, lost, over, unsupported;
  for (Worker* worker : {&broken, &lost, &over, &unsupported}) reach(*worker);
  CHECK(Words(broken.core.Fail(kLost)) == end + ", report broken 3, notify");
  CHECK(Words(lost.core.Fail(Corrupt("a hash"))) == end + ", report lost 3, notify");
  CHECK(Words(over.core.Fail(kOver)) == end);
  for (const Worker* worker : {&broken, &lost, &over}) {
    CHECK(worker->core.is_idle());
    CHECK(worker->core.status().code() == Code::kStale);
  }
  CHECK(Words(unsupported.core.Fail(Unsupported("no NCCL"))) == end);
  CHECK(unsupported.core.status().code() == Code::kUnsupported);
  CHECK(unsupported.core.Settle(kNow).empty());  // the application asks again
  CHECK(unsupported.core.awaits_generation());
  for (Worker* worker : {&broken, &lost, &over}) {
    CHECK(worker->Begin(3, Terms(4, 2, true)).empty());
    CHECK(worker->core.awaits_generation());
  }
}

// ---- a step

TEST_CASE("buckets are reduced in order, whatever the order in which their blocks are finished", "[train][replica]") {
  Worker worker;
  worker.Form();
  CHECK(worker.Slot(2, 7) == "slot replace");
  (void)worker.core.BeginSlot(4);
  CHECK(worker.core.FinishBlock(0).empty());
  CHECK(worker.core.FinishBlock(1).empty());  // bucket 1 is final, bucket 0 is not
  CHECK(worker.core.FinishBlock(3).empty());
  CHECK(Words(worker.core.FinishBlock(2)) == "reduce 0, reduce 1");
}

TEST_CASE("a bucket is reduced when the last slot has finished its blocks", "[train][replica]") {
  Worker worker;
  worker.Form();
  CHECK(worker.Slot(2, 7) == "slot replace");
  CHECK(Words(worker.core.BeginSlot(4)) == "slot add, reduce samples 11");
  CHECK(worker.core.FinishBlock(3).empty());
  CHECK(Words(worker.core.FinishBlock(2)) == "reduce 0");
  CHECK(worker.core.FinishBlock(0).empty());
  CHECK(Words(worker.core.FinishBlock(1)) == "reduce 1");
  CHECK(Words(worker.core.EndSlot(Ended(3))) == "await samples");
  CHECK(Words(worker.core.SamplesReduced(20)) == "begin update 5 of 20, await 0");
  CHECK(Words(worker.core.BucketReduced()) == "update 0, await 1");
  CHECK(Words(worker.core.BucketReduced()) == "update 1, finish 4");
  CHECK(Words(worker.core.VersionBuilt({StepAction::kApply, 1.5, 99})) == "ended 2 hash 99, ended 3 hash 99");
  CHECK(worker.core.is_idle());
  CHECK(worker.core.has_group());
}

TEST_CASE("where devices reduce, the samples come last", "[train][replica]") {
  Worker worker;
  worker.Form(true);
  CHECK(worker.Slots() == "slot replace, slot add, reduce 0, reduce 1, reduce samples 11, await samples");
}

TEST_CASE("slots without samples leave the sum as it is, or make it zero", "[train][replica]") {
  Worker worker;
  worker.Form();
  SECTION("the first one") {
    CHECK(worker.Slot(2, 0) == "slot none");
    CHECK_THAT(worker.Slot(3, 4), Contains("slot replace, reduce samples 4"));
  }
  SECTION("the last one") {
    CHECK(worker.Slot(2, 7) == "slot replace");
    CHECK_THAT(worker.Slot(3, 0), Contains("slot none, reduce samples 7"));
  }
  SECTION("all of them") {
    CHECK(worker.Slot(2, 0) == "slot none");
    CHECK_THAT(worker.Slot(3, 0), Contains("slot none zero, reduce samples 0"));
  }
}

TEST_CASE("each worker uploads its share of a version that is needed on disk", "[train][replica]") {
  Worker worker(1);
  (void)worker.Begin(3, Terms(4, 2, true));
  (void)worker.Connect("-x", "-y");
  (void)worker.core.VersionShared();
  (void)worker.core.DevicesFormed(false);
  session::StepTerms terms = Terms(4, 2, true);
  (void)worker.Slots();
  CHECK_THAT(worker.Build(), !Contains("upload"));
  terms.upload_next = true;
  CHECK(worker.Begin(3, terms).empty());
  (void)worker.Slots();
  CHECK_THAT(worker.Build(), Contains("upload 1 3, ended 2 hash 99"));
}

// ---- from step to step

TEST_CASE("what was built becomes the present version once its generation has committed it", "[train][replica]") {
  Worker worker;
  worker.Form();
  (void)worker.Slots();
  (void)worker.Build();
  SECTION("in the same generation") {
    CHECK(worker.Begin(3, Terms(5, 3)) == "publish");
    CHECK(worker.core.is_computing());
  }
  SECTION("the step begins again") {
    CHECK(worker.Begin(3, Terms(4, 0)).empty());
    CHECK(worker.core.is_computing());
  }
  SECTION("a skipped step") {
    (void)worker.Begin(3, Terms(4, 0));
    (void)worker.Slots();
    (void)worker.Build(StepAction::kSkip);
    session::StepTerms terms = Terms(5, 3);
    terms.action = StepAction::kSkip;
    CHECK(worker.Begin(3, terms).empty());
    CHECK(worker.core.is_computing());
  }
  SECTION("in another generation, whose group is formed first") {
    CHECK(worker.Begin(4, Terms(5, 3)) == "publish, end, meet 0 of 2");
    CHECK(Words(worker.core.OfferAddress("x")) == "report offered 4 +x");
  }
  SECTION("another generation committed the step") {
    CHECK(worker.Begin(5, Terms(5, 4)) == "end, meet 0 of 2");
    CHECK(Words(worker.core.OfferAddress("x")) == "report offered 5 -x");
  }
  SECTION("a version that it cannot have made") {
    CHECK(worker.Begin(3, Terms(6, 3)) == "end, report broken 3, notify");
    CHECK(worker.core.is_idle());
  }
}

TEST_CASE("a version that no step made is read from the shards again", "[train][replica]") {
  Worker worker;
  worker.Form();
  CHECK(worker.Begin(4, Terms(4, 0, true)) == "end, meet 0 of 2");
  CHECK(Words(worker.core.OfferAddress("x")) == "report offered 4 -x");
}

TEST_CASE("a version that may be half overwritten counts no more", "[train][replica]") {
  Worker worker;
  worker.Form();
  (void)worker.Slots();
  (void)worker.Build();
  (void)worker.Begin(3, Terms(5, 3));  // it has version 5
  (void)worker.Begin(4, Terms(6, 3));
  CHECK(worker.Connect("-x", "+y") == "share from 1 to me");
  (void)worker.core.Fail(kLost);
  (void)worker.Begin(5, Terms(5, 3));
  CHECK(Words(worker.core.OfferAddress("x")) == "report offered 5 -x");
}

// ---- lost members and rounds

TEST_CASE("a round that is given up while members may add it up breaks the group", "[train][replica]") {
  Worker worker;
  worker.Form();
  SECTION("before its last slot it does not") {
    (void)worker.Slot(2, 7);
    CHECK(worker.core.GiveUpRound().empty());
    CHECK(worker.core.has_group());
    CHECK(worker.Begin(3, Terms(4, 0)).empty());
    CHECK(worker.core.is_computing());
  }
  SECTION("in its last slot") {
    (void)worker.Slot(2, 7);
    (void)worker.core.BeginSlot(4);
    CHECK(Words(worker.core.GiveUpRound()) == "end, report broken 3, notify");
    CHECK_FALSE(worker.core.has_group());
  }
  SECTION("after the step is done it does not") {
    (void)worker.Slots();
    (void)worker.Build();
    CHECK(worker.core.GiveUpRound().empty());
    CHECK(worker.core.has_group());
  }
}

TEST_CASE("a lost member breaks the group, and nothing more is submitted to it", "[train][replica]") {
  Worker worker;
  worker.Form();
  SECTION("in a slot") {
    (void)worker.Slot(2, 7);
    (void)worker.core.BeginSlot(4);
    CHECK(Words(worker.core.Fail(kLost)) == "end, report broken 3, notify");
    CHECK(worker.core.FinishBlock(3).empty());
    CHECK(worker.core.FinishBlock(2).empty());
    CHECK(worker.core.EndSlot(Ended(3)).empty());
  }
  SECTION("while buckets are awaited") {
    (void)worker.Slots();
    (void)worker.core.SamplesReduced(20);
    CHECK(Words(worker.core.Fail(kLost)) == "end, report broken 3, notify");
    CHECK(worker.core.BucketReduced().empty());
  }
  CHECK_THAT(worker.core.status().message(), Contains("w1 is gone"));
  CHECK(worker.core.Fail(kLost).empty());
  CHECK(worker.core.GiveUpRound().empty());
  CHECK(worker.Begin(3, Terms(4, 0)).empty());
  CHECK(worker.core.awaits_generation());
}

TEST_CASE("a group whose round is over ends without a report", "[train][replica]") {
  Worker worker;
  worker.Form();
  (void)worker.Slots();
  SECTION("while samples are awaited") {}
  SECTION("while buckets are awaited") { (void)worker.core.SamplesReduced(20); }
  CHECK(Words(worker.core.EndRound(kOver)) == "end");
  CHECK(worker.core.status().code() == Code::kStale);
  CHECK(worker.core.GiveUpRound().empty());
}

// Gives a worker all events of generation 9; returns the commands that follow, and the state at the end.
std::string WholeGeneration(Worker* worker) {
  std::string words = worker->Begin(9, Terms(7, 8, true));
  words += "; " + Words(worker->core.OfferAddress("x"));
  words += "; " + Words(worker->core.TakeGroup(worker->Known("-x", "-y")));
  words += "; " + Words(worker->core.Connected(kNow));
  words += "; " + Words(worker->core.VersionRead());
  words += "; " + Words(worker->core.VersionShared());
  words += "; " + Words(worker->core.DevicesFormed(false));
  for (std::uint64_t version = 7; version < 9; ++version) {
    if (version > 7) words += "; " + worker->Begin(9, Terms(version, 9));
    words += "; " + worker->Slots();
    words += "; " + worker->Build();
  }
  (void)worker->core.GiveUpRound();
  return words + "; " + worker->core.status().message() + "; " + std::to_string(worker->core.has_group());
}

TEST_CASE("a new generation begins as in a fresh worker, wherever the last one ended", "[train][replica]") {
  const std::vector<std::function<void(AllReduceCore&, Worker&)>> events = {
      [](AllReduceCore&, Worker& w) { (void)w.Begin(3, Terms(4, 2, true)); },
      [](AllReduceCore& core, Worker&) { (void)core.OfferAddress("old"); },
      [](AllReduceCore& core, Worker& w) { (void)core.TakeGroup(w.Known("-old", "+other")); },
      [](AllReduceCore& core, Worker&) { (void)core.Connected(kNow - seconds(100)); },
      [](AllReduceCore& core, Worker&) { (void)core.VersionShared(); },
      [](AllReduceCore& core, Worker&) { (void)core.DevicesFormed(true); },
      [](AllReduceCore&, Worker& w) { (void)w.Slot(2, 0); },
      [](AllReduceCore& core, Worker&) { (void)core.BeginSlot(3); },
      [](AllReduceCore& core, Worker&) { (void)core.FinishBlock(3); },
      [](AllReduceCore& core, Worker&) { (void)core.FinishBlock(2); },
      [](AllReduceCore& core, Worker&) { (void)core.EndSlot(Ended(3)); },
      [](AllReduceCore& core, Worker&) { (void)core.SamplesReduced(5); },
      [](AllReduceCore& core, Worker&) { (void)core.BucketReduced(); },
      [](AllReduceCore& core, Worker&) { (void)core.BucketReduced(); },
      [](AllReduceCore& core, Worker&) {
        (void)core.VersionBuilt({StepAction::kApply, 1.0, 1});
      },
      [](AllReduceCore&, Worker& w) { (void)w.Begin(3, Terms(5, 3)); },
  };
  const std::vector<std::function<void(AllReduceCore&)>> ends = {
      [](AllReduceCore& core) { (void)core.Fail(kLost); }, [](AllReduceCore& core) { (void)core.Fail(kOver); },
      [](AllReduceCore& core) { (void)core.Fail(Unsupported("no NCCL")); },
      [](AllReduceCore& core) { (void)core.EndRound(kOver); }, [](AllReduceCore&) {}};
  Worker fresh;
  const std::string expected = WholeGeneration(&fresh);
  for (std::size_t count = 0; count <= events.size(); ++count) {
    for (std::size_t end = 0; end < ends.size(); ++end) {
      CAPTURE(count, end);
      Worker used;
      for (std::size_t i = 0; i < count; ++i) events[i](used.core, used);
      ends[end](used.core);
      (void)used.core.GiveUpRound();
      CHECK(WholeGeneration(&used) == expected);
    }
  }
}

}  // namespace
}  // namespace capstan::train
