#include "server/shard/log_queue.h"

#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr PeerId kA{1}, kB{2};

PushRecord MakePush(BlockIndex block, SlotIndex slot, std::uint64_t sequence) {
  PushRecord push;
  push.block = block;
  push.slot = slot;
  push.sequence = {sequence};
  return push;
}

EndRecord MakeEnd(SlotIndex slot, std::uint64_t sequence) {
  EndRecord end{SequenceNumber{sequence}, {}};
  end.report.slot = slot;
  return end;
}

TEST_CASE("one append is under way at a time and takes all that has gathered", "[server][log]") {
  LogQueue queue(1 << 20, 100);
  CHECK(queue.BeginAppend() == nullptr);
  queue.Add(kA, MakePush(0, 0, 1));
  const auto first = queue.BeginAppend();
  REQUIRE(first != nullptr);
  CHECK(first->size() == 1);
  queue.Add(kB, MakePush(0, 0, 2));
  queue.Add(kA, MakeEnd(0, 1));
  CHECK(queue.BeginAppend() == nullptr);
  const LogQueue::Appended done = queue.FinishAppend();
  CHECK(done.records == first);
  CHECK(done.senders == std::vector<PeerId>{kA});
  const auto second = queue.BeginAppend();
  REQUIRE(second != nullptr);
  CHECK(second->size() == 2);
  CHECK(queue.FinishAppend().senders == std::vector<PeerId>{kB, kA});
  CHECK(queue.BeginAppend() == nullptr);
}

TEST_CASE("what is in flight is known by block, slot and sequence number until it is durable", "[server][log]") {
  LogQueue queue(1 << 20, 100);
  queue.Add(kA, MakePush(3, 1, 5));
  (void)queue.BeginAppend();
  queue.Add(kA, MakePush(3, 1, 6));
  queue.Add(kA, MakeEnd(1, 5));
  CHECK(queue.NewestPush(3, 1) == SequenceNumber{6});
  CHECK(queue.NewestEnd(1) == SequenceNumber{5});
  CHECK(!queue.NewestPush(3, 0));
  CHECK(!queue.NewestEnd(0));
  (void)queue.FinishAppend();
  CHECK(queue.NewestPush(3, 1) == SequenceNumber{6});
  (void)queue.BeginAppend();
  (void)queue.FinishAppend();
  CHECK(!queue.NewestPush(3, 1));
  CHECK(!queue.NewestEnd(1));
}

TEST_CASE("a queue is full by records or by bytes, and takes one whatever its size", "[server][log]") {
  LogQueue by_records(1 << 20, 2);
  by_records.Add(kA, MakePush(0, 0, 1));
  CHECK(!by_records.Full(0));
  by_records.Add(kA, MakePush(0, 0, 2));
  CHECK(by_records.Full(0));
  LogQueue by_bytes(1000, 100);
  CHECK(!by_bytes.Full(5000));
  by_bytes.Add(kA, MakePush(0, 0, 1));
  CHECK(!by_bytes.Full(100));
  CHECK(by_bytes.Full(5000));
}

TEST_CASE("a failed append takes all with it: what gathered behind it may follow from it", "[server][log]") {
  LogQueue queue(1 << 20, 100);
  queue.Add(kA, MakePush(0, 0, 1));
  (void)queue.BeginAppend();
  queue.Add(kA, MakePush(0, 0, 2));
  CHECK(queue.Forget().size() == 2);
  CHECK(!queue.appending());
  CHECK(!queue.NewestPush(0, 0));
  CHECK(queue.BeginAppend() == nullptr);
  CHECK(queue.gathered_bytes() == 0);
}

TEST_CASE("senders of another generation are not told", "[server][log]") {
  LogQueue queue(1 << 20, 100);
  queue.Add(kA, MakePush(0, 0, 1));
  (void)queue.BeginAppend();
  queue.Add(kA, MakePush(0, 0, 2));
  queue.ForgetSenders();
  CHECK(queue.FinishAppend().senders == std::vector<PeerId>{PeerId{}});
  (void)queue.BeginAppend();
  CHECK(queue.FinishAppend().senders == std::vector<PeerId>{PeerId{}});
}

}  // namespace
}  // namespace capstan::server
