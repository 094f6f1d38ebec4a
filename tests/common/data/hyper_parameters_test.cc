#include "common/data/hyper_parameters.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Member {
  const char* name;
  double HyperParameters::*value;
};
constexpr Member kMembers[] = {{"learning_rate", &HyperParameters::learning_rate},
                               {"momentum", &HyperParameters::momentum},
                               {"beta1", &HyperParameters::beta1},
                               {"beta2", &HyperParameters::beta2},
                               {"eps", &HyperParameters::eps},
                               {"weight_decay", &HyperParameters::weight_decay}};

const HyperParameters kGood{0.1, 0.9, 0.9, 0.999, 1e-8, 0.01, true};

}  // namespace

TEST_CASE("a set of hyper-parameters has one entry for each group", "[common][hyper]") {
  CHECK(CheckHyperParameters({}, 0).ok());
  CHECK(CheckHyperParameters({kGood, {}}, 2).ok());
  CHECK_THAT(CheckHyperParameters({kGood}, 0).message(), Contains("the job file owns them"));
  CHECK_THAT(CheckHyperParameters({}, 2).message(), Contains("of 0 groups, and the tensors are declared with 2"));
  CHECK_THAT(CheckHyperParameters({kGood, kGood, kGood}, 2).message(), Contains("of 3 groups"));
}

TEST_CASE("a hyper-parameter that is negative, not finite or a beta of 1 is named with its group", "[common][hyper]") {
  for (const Member& member : kMembers) {
    for (double bad : {-1e-9, -0.0, kNaN, -kNaN, kInfinity, -kInfinity}) {
      std::vector<HyperParameters> groups{kGood, kGood};
      groups[1].*member.value = bad;
      const Status status = CheckHyperParameters(groups, 2);
      CAPTURE(member.name, bad);
      CHECK(status.code() == Code::kInvalid);
      CHECK_THAT(status.message(), Contains(std::string("group 2: ") + member.name + " is "));
    }
    const bool is_beta = member.name[0] == 'b';
    std::vector<HyperParameters> one{kGood};
    one[0].*member.value = 1.0;
    CHECK(CheckHyperParameters(one, 1).ok() == !is_beta);
  }
}

TEST_CASE("the first field that differs between two sets is found, and every field is in the hash", "[common][hyper]") {
  const std::vector<HyperParameters> known{kGood, kGood};
  for (const Member& member : kMembers) {
    std::vector<HyperParameters> other = known;
    other[1].*member.value = std::nextafter(known[1].*member.value, 0.0);
    const HyperDifference difference = FindDifference(known, other);
    CHECK(difference.group == 2);
    CHECK(difference.field == member.name);
    CHECK(difference.known != difference.other);
    CHECK(HashOf(known) != HashOf(other));
  }
  std::vector<HyperParameters> other = known;
  other[0].nesterov = false;
  CHECK(FindDifference(known, other).field == "nesterov");
  CHECK(FindDifference(known, other).known == "true");
  CHECK(HashOf(known) != HashOf(other));
  CHECK(HashOf(known) == HashOf({kGood, kGood}));
}

}  // namespace capstan
