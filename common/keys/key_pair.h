// KeyPair: the Curve25519 keys of a process (libsodium's crypto_box, as CurveZMQ uses it).
//
// Kind:   values. A secret key is wiped when it is destroyed, and cannot be copied.
// Why:    a public key is the name of a process; only the process that has the secret key can prove that name.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kKeyDigits = 2 * kKeyBytes;  // of a key's text

struct PublicKey {
  std::array<std::uint8_t, kKeyBytes> bytes{};
  auto operator<=>(const PublicKey&) const = default;
};

// Returns the key as 64 hexadecimal digits.
std::string TextOf(const PublicKey& key);
// Fails with kInvalid if the text is not 64 hexadecimal digits. `what` names the place that has the text.
Result<PublicKey> ParsePublicKey(std::string_view what, std::string_view text);

class SecretKey {
 public:
  using Bytes = std::array<std::uint8_t, kKeyBytes>;

  SecretKey() = default;
  SecretKey(SecretKey&& other) noexcept : bytes_(other.bytes_) { other.Wipe(); }
  SecretKey& operator=(SecretKey&& other) noexcept;
  ~SecretKey() { Wipe(); }

  const Bytes& bytes() const { return bytes_; }
  Bytes* mutable_bytes() { return &bytes_; }

 private:
  void Wipe();
  Bytes bytes_{};
};

struct KeyPair {
  PublicKey public_key;
  SecretKey secret_key;
};

// Draws a new pair from the system's random numbers.
KeyPair NewKeyPair();
// Returns the public key that belongs to a secret key.
PublicKey PublicKeyOf(const SecretKey& secret_key);

}  // namespace capstan
