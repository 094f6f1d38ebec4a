// Tests of the proofs that members of a group show each other.
#include "common/keys/group_proof.h"

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("members with the same shares accept each other's proofs of the same claim, and no others", "[keys]") {
  const std::vector<std::string> shares = {NewGroupShare(), NewGroupShare()};
  CHECK(shares[0].size() == 2 * kProofBytes);
  CHECK(shares[0] != shares[1]);
  const GroupProof one(shares), other(shares);
  const Proof proof = one.Of("1 to 0, 2");
  CHECK(other.Accepts(proof, "1 to 0, 2"));
  CHECK_FALSE(other.Accepts(proof, "0 to 1, 2"));
  CHECK_FALSE(other.Accepts(proof, "1 to 0, 1"));
  CHECK_FALSE(other.Accepts(Proof{}, "1 to 0, 2"));
  for (const std::vector<std::string>& others :
       {std::vector<std::string>{shares[1], shares[0]}, {shares[0]}, {shares[0], NewGroupShare()}, {}}) {
    CHECK_FALSE(GroupProof(others).Accepts(proof, "1 to 0, 2"));
  }
}

}  // namespace
}  // namespace capstan
