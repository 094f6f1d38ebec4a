// GroupProof: how members of a group prove to each other that they know its secret.
//
// Kind:   a value.
// Why:    each member gives the group a share of random bytes, and the secret is a hash of all shares. So it follows
//         from what the members tell each other anyway, and is another one for each group that is formed. A proof is a
//         keyed hash (BLAKE2b) of who shows it to whom: somebody who has seen one cannot show it to another member, or
//         back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

inline constexpr std::size_t kProofBytes = 32;
using Proof = std::array<std::uint8_t, kProofBytes>;

// Returns 32 random bytes as 64 hexadecimal digits.
std::string NewGroupShare();

class GroupProof {
 public:
  // `shares`: of all members, in the same order for all of them.
  explicit GroupProof(const std::vector<std::string>& shares);

  // `what` says who proves it to whom, and for which connection.
  Proof Of(std::string_view what) const;
  // Takes the same time whatever the proof is.
  bool Accepts(const Proof& proof, std::string_view what) const;

 private:
  std::array<std::uint8_t, kProofBytes> secret_{};
};

}  // namespace capstan
