#include "server/storage/sealed_text.h"

#include "common/base/hash.h"

namespace capstan::server {

namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

std::uint64_t SealHash(std::uint64_t previous, std::string_view text) {
  Hasher hasher;
  hasher.Add(previous);
  hasher.Add(text);
  return hasher.Digest();
}

std::string Seal(std::uint64_t previous, std::string_view text) {
  const std::uint64_t hash = SealHash(previous, text);
  std::string sealed;
  sealed.reserve(kSealBytes + text.size());
  for (int shift = 60; shift >= 0; shift -= 4) sealed += kDigits[hash >> shift & 0xF];
  sealed += ' ';
  sealed += text;
  return sealed;
}

std::optional<std::uint64_t> StatedHash(std::string_view sealed) {
  if (sealed.size() < kSealBytes || sealed[kSealBytes - 1] != ' ') return std::nullopt;
  std::uint64_t hash = 0;
  for (const char c : sealed.substr(0, kSealBytes - 1)) {
    const std::size_t digit = std::string_view(kDigits, 16).find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    hash = hash << 4 | digit;
  }
  return hash;
}

std::optional<std::string_view> Unseal(std::uint64_t previous, std::string_view sealed) {
  const std::optional<std::uint64_t> stated = StatedHash(sealed);
  if (!stated) return std::nullopt;
  const std::string_view text = sealed.substr(kSealBytes);
  if (SealHash(previous, text) != *stated) return std::nullopt;
  return text;
}

bool BeginsWithSealed(std::uint64_t previous, std::string_view sealed, char last) {
  const std::optional<std::uint64_t> stated = StatedHash(sealed);
  if (!stated) return false;
  Hasher hasher;
  hasher.Add(previous);
  std::size_t hashed = kSealBytes;
  while (true) {
    const std::size_t at = sealed.find(last, hashed);
    if (at >= sealed.size() - 1) return false;  // none, or the last byte
    hasher.Add(sealed.substr(hashed, at + 1 - hashed));
    if (hasher.Digest() == *stated) return true;
    hashed = at + 1;
  }
}

}  // namespace capstan::server
