#include "common/config/job/optimizer_section.h"

#include "tests/catch.h"

using namespace capstan;

TEST_CASE("weight decay spares the tensors whose names match", "[config]") {
  OptimizerSection optimizer;
  CHECK(DecayApplies(optimizer, "h.0.attn.bias"));
  optimizer.no_decay = {"*.bias", "ln*"};
  CHECK_FALSE(DecayApplies(optimizer, "h.0.attn.bias"));
  CHECK_FALSE(DecayApplies(optimizer, "ln_f.weight"));
  CHECK(DecayApplies(optimizer, "h.0.attn.weight"));
}
