// What a coordinator has to say about a job later: who joined, was refused, took over or left, what was recovered and
// why, and which snapshots were deleted.
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;

// Returns the texts of that kind since the last Forget, each with a newline.
std::string Texts(const CoordinatorHarness& harness, AuditKind kind) {
  std::string all;
  for (const AuditEntry& entry : harness.out().audit) {
    if (entry.kind == kind) all += entry.text + "\n";
  }
  return all;
}

TEST_CASE("who joins, takes over, is refused and leaves is told once each", "[server][audit]") {
  CoordinatorHarness harness = Harness();
  harness.Live();
  harness.ShardsEchoTerm();
  harness.ShardsEchoTerm();  // repeated
  Join join = harness.MakeJoin("w0");
  join.machine = "node-5";
  join.metrics = "10.0.0.5:90";
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  harness.Send(CoordinatorHarness::PeerOf(join), join);  // repeated
  const std::string joined = Texts(harness, AuditKind::kJoined);
  CAPTURE(joined);
  CHECK(std::count(joined.begin(), joined.end(), '\n') == 3);
  CHECK(Mentions(joined, "server 0 at " + harness.shards[0].hello.endpoint + ", life "));
  CHECK(Mentions(joined, "\"w0\", machine \"node-5\", metrics at 10.0.0.5:90\n"));
  CHECK(Texts(harness, AuditKind::kTookOver).empty());

  harness.Joins("w0", 2);
  CHECK(Mentions(Texts(harness, AuditKind::kTookOver), "\"w0\" joined again from another process"));
  CHECK(Texts(harness, AuditKind::kLost) == "\"w0\" was lost, and another process of its name has joined\n");
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  CHECK(Mentions(Texts(harness, AuditKind::kRefused), "\"w0\" is the older of two processes of that name"));
  Join other = harness.MakeJoin("w1");
  other.data_fingerprint = 99;
  harness.Send(CoordinatorHarness::PeerOf(other), other);
  CHECK(Mentions(Texts(harness, AuditKind::kRefused), "worker \"w1\": reads other data"));
  Hello hello = harness.shards[0].hello;
  hello.config_hash += 1;
  harness.Send(CoordinatorHarness::kStranger, hello);
  CHECK(Mentions(Texts(harness, AuditKind::kRefused), "server 0"));

  Leave leave = harness.MakeLeave(harness.MakeJoin("w0", 2));
  leave.reason = "done";
  harness.Send(CoordinatorHarness::PeerOf(harness.MakeJoin("w0", 2)), leave);
  CHECK(Texts(harness, AuditKind::kLeft) == "\"w0\": done\n");
  harness.Joins("w2", 3);
  harness.Pass(seconds(60));
  CHECK(Mentions(Texts(harness, AuditKind::kLost), "\"w2\" has been silent for "));
}

// Returns the principals in the entries of that kind since the last Forget.
std::vector<std::string> Principals(const CoordinatorHarness& harness, AuditKind kind) {
  std::vector<std::string> all;
  for (const AuditEntry& entry : harness.out().audit) {
    if (entry.kind == kind) all.push_back(entry.who);
  }
  return all;
}

TEST_CASE("each entry about a peer has its principal", "[server][audit]") {
  CoordinatorHarness harness = Harness();
  harness.Live();
  harness.ShardsEchoTerm();
  const Principal server{Role::kServer, "0"}, worker{Role::kWorker, "w0"}, unnamed{Role::kWorker, "", PublicKey{}};
  const std::string no_name = "worker of key 00000000";
  harness.Forget();
  Hello hello = harness.shards[0].hello;
  hello.incarnation = {hello.incarnation.value + 1};
  hello.job = JobId{1, 2};
  harness.Send(harness.shards[0].peer, hello, server);
  hello.config_hash += 1;
  harness.Send(CoordinatorHarness::kStranger, hello, server);
  CHECK(Principals(harness, AuditKind::kTookOver) == std::vector<std::string>{"server \"0\""});
  CHECK(Principals(harness, AuditKind::kRefused) == std::vector<std::string>{"server \"0\""});

  harness.Forget();
  const Join first = harness.MakeJoin("w0"), second = harness.MakeJoin("w0", 2), third = harness.MakeJoin("w1", 3);
  harness.Send(CoordinatorHarness::PeerOf(first), first, worker);
  harness.Send(CoordinatorHarness::PeerOf(second), second, unnamed);
  harness.Send(CoordinatorHarness::PeerOf(first), first, worker);
  harness.Send(CoordinatorHarness::PeerOf(third), third, worker);
  CHECK(Principals(harness, AuditKind::kJoined) == std::vector<std::string>{"worker \"w0\"", no_name, "worker \"w0\""});
  CHECK(Principals(harness, AuditKind::kTookOver) == std::vector{no_name});
  CHECK(Principals(harness, AuditKind::kRefused) == std::vector<std::string>{"worker \"w0\""});
  harness.Send(CoordinatorHarness::PeerOf(second), harness.MakeLeave(second));
  harness.Pass(seconds(60));
  CHECK(Principals(harness, AuditKind::kLeft) == std::vector{no_name});
  CHECK(Principals(harness, AuditKind::kLost) == std::vector<std::string>(2, "worker \"w0\""));
}

TEST_CASE("a claim of a shard's place is told with the claimant's principal", "[server][audit]") {
  CoordinatorHarness harness = Harness();
  harness.Live();
  harness.ShardsEchoTerm();
  Hello claim = harness.shards[0].hello;
  claim.incarnation = {claim.incarnation.value + 1};
  harness.Forget();
  harness.Send(CoordinatorHarness::kStranger, claim, {Role::kServer, "1"});
  harness.now += seconds(1);
  harness.Send(harness.shards[0].peer, harness.shards[0].hello, {Role::kServer, "0"});
  CHECK(Principals(harness, AuditKind::kRefused) == std::vector<std::string>{"server \"1\""});
}

TEST_CASE("a recovery is told with its cause, and a snapshot that is deleted with the reason", "[server][audit]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  CHECK(Texts(harness, AuditKind::kRecovery).empty());
  RunTo(&harness, 4);
  CHECK(Texts(harness, AuditKind::kSnapshotDeleted).empty());
  RunTo(&harness, 6);  // two are kept
  CHECK(Texts(harness, AuditKind::kSnapshotDeleted) ==
        "the snapshot of version 2: [snapshot] keep = 2, and there is one of version 6\n");
  harness.Forget();
  harness.RestartShard(1, {Part(Id(1, 4), 1)});  // has lost the newest
  const std::string took_over = Texts(harness, AuditKind::kTookOver);
  CHECK(Mentions(took_over, "server 1 at "));
  CHECK(Mentions(took_over, "in place of the one before"));
  (void)Resets(&harness);
  const std::string recovery = Texts(harness, AuditKind::kRecovery);
  CAPTURE(recovery);
  CHECK(Texts(harness, AuditKind::kLost) ==
        "server 1 was lost and came back; every shard goes back to the newest snapshot\n");
  CHECK(Mentions(recovery, "the snapshot of version 6 cannot be used: "));
  CHECK(Mentions(recovery, "generation 3: every shard starts from the snapshot of version 4\n"));
  CHECK(Mentions(Texts(harness, AuditKind::kSnapshotDeleted), "the snapshot of version 6: it cannot be used: "));
  for (ShardIndex i = 0; i < harness.shards.size(); ++i) harness.AnswerReset(i);
  CHECK_THAT(Texts(harness, AuditKind::kRecovery),
             Catch::Matchers::Contains("recovered in 0.5 s, 2 steps will be done again\n"));
}

TEST_CASE("a start, a snapshot, a dead worker and a later coordinator's start are told", "[server][audit]") {
  CoordinatorHarness harness = Harness();
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  harness.Joins("w1");
  CHECK(Texts(harness, AuditKind::kStarted) == "generation 1: the job starts from step 0\n");
  CHECK(Texts(harness, AuditKind::kRecovery).empty());
  for (ShardIndex i = 0; i < harness.shards.size(); ++i) harness.AnswerReset(i);
  RunTo(&harness, 2);
  CHECK(Mentions(Texts(harness, AuditKind::kSnapshot), "snapshot of version 2 ("));
  harness.WorkerDies("w1");
  CHECK(Texts(harness, AuditKind::kLost) == "\"w1\" died; its slots move\n");

  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(Texts(harness, AuditKind::kStarted) == "the coordinator was started again, and goes on at step 2\n");
}

}  // namespace
}  // namespace capstan::server
