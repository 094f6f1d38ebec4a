// Which version a replica has: by number, and by the generation that committed it.
#include "worker/allreduce/replica_version.h"
#include "tests/catch.h"

namespace capstan::train {
namespace {

using Taking = ReplicaVersion::Taking;

session::StepTerms TermsOf(std::uint64_t version, std::uint64_t made_in, StepAction action = StepAction::kApply) {
  session::StepTerms terms;
  terms.version = Version{version};
  terms.made_in = Generation{made_in};
  terms.action = action;
  return terms;
}

// Returns the state of a replica that has version 4, committed by generation 1, and has built version 5 in generation
// 2.
ReplicaVersion WithNext(StepAction action = StepAction::kApply) {
  ReplicaVersion version;
  version.Become(TermsOf(4, 1));
  version.Build(Version{5}, Generation{2}, action);
  return version;
}

TEST_CASE("a replica that was never filled is no version", "[train][replica]") {
  ReplicaVersion version;
  CHECK_FALSE(version.Is(TermsOf(0, 0)));
  CHECK(version.Take(TermsOf(0, 0)) == Taking::kNot);
  version.Build(Version{1}, Generation{1}, StepAction::kApply);
  CHECK(version.Take(TermsOf(1, 1)) == Taking::kNot);
}

TEST_CASE("what was built is taken when its own generation has committed it", "[train][replica]") {
  ReplicaVersion version = WithNext();
  CHECK(version.Take(TermsOf(4, 1)) == Taking::kPresent);  // the step begins again: nothing is lost
  CHECK(version.Take(TermsOf(5, 2)) == Taking::kBuilt);
  CHECK(version.Is(TermsOf(5, 2)));
  CHECK_FALSE(version.Is(TermsOf(4, 1)));
  CHECK(version.Take(TermsOf(5, 2)) == Taking::kPresent);
}

TEST_CASE("what another generation committed under that number is not it", "[train][replica]") {
  ReplicaVersion version = WithNext();
  CHECK(version.Take(TermsOf(5, 3)) == Taking::kNot);
  CHECK(version.Take(TermsOf(5, 2)) == Taking::kNot);  // it was given up
  ReplicaVersion present;
  present.Become(TermsOf(5, 2));
  CHECK_FALSE(present.Is(TermsOf(5, 3)));
}

TEST_CASE("a skipped step leaves the replica as it is, under another number", "[train][replica]") {
  ReplicaVersion version = WithNext(StepAction::kSkip);
  CHECK(version.Take(TermsOf(5, 2, StepAction::kSkip)) == Taking::kSkipped);
  CHECK(version.Is(TermsOf(5, 2)));
  ReplicaVersion applied = WithNext(StepAction::kApply);
  CHECK(applied.Take(TermsOf(5, 2, StepAction::kSkip)) == Taking::kNot);
}

TEST_CASE("a version that no step made is handed on by the shards alone", "[train][replica]") {
  ReplicaVersion version;
  version.Become(TermsOf(7, 0));
  CHECK(version.Is(TermsOf(7, 0)));
  CHECK_FALSE(version.MayHandOn(TermsOf(7, 0)));
  version.Become(TermsOf(8, 1));
  CHECK(version.MayHandOn(TermsOf(8, 1)));
  version.Forget();
  CHECK_FALSE(version.MayHandOn(TermsOf(8, 1)));
}

}  // namespace
}  // namespace capstan::train
