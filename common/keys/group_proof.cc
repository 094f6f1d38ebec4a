#include "common/keys/group_proof.h"

#include <sodium.h>

#include "common/base/status.h"

namespace capstan {

static_assert(kProofBytes == crypto_generichash_BYTES && kProofBytes == crypto_generichash_KEYBYTES);

std::string NewGroupShare() {
  CAPSTAN_CHECK(sodium_init() >= 0);
  std::array<std::uint8_t, kProofBytes> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, 2 * kProofBytes + 1> text{};
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  return text.data();
}

GroupProof::GroupProof(const std::vector<std::string>& shares) {
  std::string all;
  for (const std::string& share : shares) all += share + ';';
  const auto* const bytes = reinterpret_cast<const unsigned char*>(all.data());
  CAPSTAN_CHECK(crypto_generichash(secret_.data(), secret_.size(), bytes, all.size(), nullptr, 0) == 0);
}

Proof GroupProof::Of(std::string_view what) const {
  Proof proof;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(what.data());
  CAPSTAN_CHECK(crypto_generichash(proof.data(), proof.size(), bytes, what.size(), secret_.data(), secret_.size()) ==
                0);
  return proof;
}

bool GroupProof::Accepts(const Proof& proof, std::string_view what) const {
  const Proof expected = Of(what);
  return sodium_memcmp(proof.data(), expected.data(), proof.size()) == 0;
}

}  // namespace capstan
