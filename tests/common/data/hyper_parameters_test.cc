#include "common/data/hyper_parameters.h"

#include <cmath>
#include <limits>
#include <utility>

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
                               {"weight_decay", &HyperParameters::weight_decay},
                               {"dampening", &HyperParameters::dampening},
                               {"alpha", &HyperParameters::alpha},
                               {"lr_decay", &HyperParameters::lr_decay},
                               {"initial_accumulator_value", &HyperParameters::initial_accumulator_value},
                               {"momentum_decay", &HyperParameters::momentum_decay}};
constexpr std::pair<const char*, bool HyperParameters::*> kFlags[] = {
    {"nesterov", &HyperParameters::nesterov},
    {"maximize", &HyperParameters::maximize},
    {"decoupled_weight_decay", &HyperParameters::decoupled_weight_decay}};

const HyperParameters kGood{0.1, 0.9, 0.9, 0.999, 1e-8, 0.01, true, 0.1, 0.99, 0.2, 0.5, 4e-3, true, true};

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
    const std::string name = member.name;
    const bool is_mean = name == "beta1" || name == "beta2" || name == "alpha";
    std::vector<HyperParameters> one{kGood};
    one[0].*member.value = 1.0;
    CHECK(CheckHyperParameters(one, 1).ok() == !is_mean);
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
    CHECK_FALSE(known[1] == other[1]);
  }
  for (const auto& [name, flag] : kFlags) {
    std::vector<HyperParameters> other = known;
    other[0].*flag = false;
    CHECK(FindDifference(known, other).field == name);
    CHECK(FindDifference(known, other).known == "true");
    CHECK(HashOf(known) != HashOf(other));
    CHECK_FALSE(known == other);
  }
  CHECK(HashOf(known) == HashOf({kGood, kGood}));
}

TEST_CASE("a momentum that the servers do not keep is refused with the line to write", "[common][hyper]") {
  HyperParameters plain = kGood;
  plain.momentum = 0.0;
  CHECK(CheckNoMomentum({}).ok());
  CHECK(CheckNoMomentum({plain, plain}).ok());
  CHECK_THAT(CheckNoMomentum({plain, kGood}).message(), Contains("group 2: momentum is 0.9") &&
                                                            Contains("set optimizer.momentum = 0.9") &&
                                                            Contains("optimizer.kind = \"momentum\""));
}

}  // namespace capstan
