#include "common/keys/key_pair.h"

#include <sodium.h>

namespace capstan {

static_assert(kKeyBytes == crypto_box_PUBLICKEYBYTES && kKeyBytes == crypto_box_SECRETKEYBYTES);

std::string TextOf(const PublicKey& key) {
  std::array<char, kKeyDigits + 1> text{};
  sodium_bin2hex(text.data(), text.size(), key.bytes.data(), key.bytes.size());
  return text.data();
}

Result<PublicKey> ParsePublicKey(std::string_view what, std::string_view text) {
  PublicKey key;
  std::size_t read = 0;
  const int failure =
      sodium_hex2bin(key.bytes.data(), key.bytes.size(), text.data(), text.size(), nullptr, &read, nullptr);
  if (failure == 0 && read == kKeyBytes && text.size() == kKeyDigits) return key;
  return Invalid(std::string(what) + " is no public key: it has " + std::to_string(text.size()) +
                 " characters; a key has " + std::to_string(kKeyDigits) + " hexadecimal digits");
}

SecretKey& SecretKey::operator=(SecretKey&& other) noexcept {
  bytes_ = other.bytes_;
  other.Wipe();
  return *this;
}

void SecretKey::Wipe() { sodium_memzero(bytes_.data(), bytes_.size()); }

KeyPair NewKeyPair() {
  CAPSTAN_CHECK(sodium_init() >= 0);
  KeyPair pair;
  crypto_box_keypair(pair.public_key.bytes.data(), pair.secret_key.mutable_bytes()->data());
  return pair;
}

PublicKey PublicKeyOf(const SecretKey& secret_key) {
  PublicKey key;
  CAPSTAN_CHECK(crypto_scalarmult_base(key.bytes.data(), secret_key.bytes().data()) == 0);
  return key;
}

}  // namespace capstan
