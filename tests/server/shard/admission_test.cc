#include "server/shard/admission.h"

#include "tests/catch.h"

namespace capstan::server {
namespace {

TEST_CASE("sync stages the present step only", "[server][admission]") {
  for (std::uint64_t last : {std::uint64_t{0}, std::uint64_t{7}}) {  // async's number plays no part
    CHECK(AdmitPush(Mode::kSync, Step{4}, Step{5}, {last}) == PushAdmission::kPassed);
    CHECK(AdmitPush(Mode::kSync, Step{5}, Step{5}, {last}) == PushAdmission::kStage);
    CHECK(AdmitPush(Mode::kSync, Step{6}, Step{5}, {last}) == PushAdmission::kTooEarly);
  }
}

TEST_CASE("async applies the number behind the last one, whatever the shard's clock", "[server][admission]") {
  for (std::uint64_t current : {std::uint64_t{0}, std::uint64_t{9}}) {
    CHECK(AdmitPush(Mode::kAsync, Step{0}, Step{current}, {0}) == PushAdmission::kPassed);
    CHECK(AdmitPush(Mode::kAsync, Step{1}, Step{current}, {0}) == PushAdmission::kApply);
    CHECK(AdmitPush(Mode::kAsync, Step{2}, Step{current}, {0}) == PushAdmission::kGap);
    CHECK(AdmitPush(Mode::kAsync, Step{3}, Step{current}, {3}) == PushAdmission::kPassed);
    CHECK(AdmitPush(Mode::kAsync, Step{4}, Step{current}, {3}) == PushAdmission::kApply);
    CHECK(AdmitPush(Mode::kAsync, Step{UINT64_MAX}, Step{current}, {3}) == PushAdmission::kGap);
  }
}

TEST_CASE("sync answers the published version, parks the next, and no other", "[server][admission]") {
  CHECK(AdmitPull(Mode::kSync, Version{4}, Version{5}, 0) == PullAdmission::kStale);
  CHECK(AdmitPull(Mode::kSync, Version{5}, Version{5}, 0) == PullAdmission::kAnswer);
  CHECK(AdmitPull(Mode::kSync, Version{6}, Version{5}, 0) == PullAdmission::kPark);
  CHECK(AdmitPull(Mode::kSync, Version{5 + kFutureVersionsMax}, Version{5}, 0) == PullAdmission::kPark);
  CHECK(AdmitPull(Mode::kSync, Version{6 + kFutureVersionsMax}, Version{5}, 0) == PullAdmission::kTooEarly);
}

TEST_CASE("async answers every pull", "[server][admission]") {
  for (std::uint64_t wanted : {std::uint64_t{0}, std::uint64_t{5}, UINT64_MAX}) {
    CHECK(AdmitPull(Mode::kAsync, Version{wanted}, Version{5}, 0) == PullAdmission::kAnswer);
  }
}

TEST_CASE("only sync has global steps", "[server][admission]") {
  CHECK(HasGlobalSteps(Mode::kSync));
  CHECK(!HasGlobalSteps(Mode::kAsync));
}

TEST_CASE("bounded: a pull waits until the slowest slot is near enough", "[server][bounded]") {
  CHECK(AdmitPull(Mode::kBounded, Version{5}, Version{5}, 0) == PullAdmission::kAnswer);
  CHECK(AdmitPull(Mode::kBounded, Version{6}, Version{5}, 0) == PullAdmission::kPark);
  CHECK(AdmitPull(Mode::kBounded, Version{7}, Version{5}, 2) == PullAdmission::kAnswer);
  CHECK(AdmitPull(Mode::kBounded, Version{8}, Version{5}, 2) == PullAdmission::kPark);
  CHECK(AdmitPull(Mode::kBounded, Version{3}, Version{5}, 0) == PullAdmission::kAnswer);
  CHECK(AdmitPush(Mode::kBounded, Step{6}, Step{0}, {5}) == PushAdmission::kApply);
}

}  // namespace
}  // namespace capstan::server
