#include "common/base/hash.h"

#define XXH_INLINE_ALL  // compiled here, so that it uses the instructions this file is built for
#define XXH_PREFETCH_DIST \
  2048  // most data but weights are not in the cache, and the processor's own prefetch stops at a page's end
#include <xxhash.h>

#include <bit>

namespace capstan {

static_assert(std::endian::native == std::endian::little);

struct Hasher::State {
  XXH3_state_t xxh;
};

std::uint64_t Hash64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t Hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hasher::Hasher() : state_(new State) { XXH3_64bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;

void Hasher::Add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

void Hasher::Add(std::uint64_t number) { Add(std::as_bytes(std::span(&number, 1))); }

std::uint64_t Hasher::Digest() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace capstan
