// Hash64, Hasher: XXH3-64 of bytes. They detect differences and damage, and are no defence against an adversary.
//
// Kind:   a pure function; a Hasher is owned by one thread.
// Why:    the same bytes give the same number on every machine, in files and on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace capstan {

std::uint64_t Hash64(std::span<const std::byte> bytes);
// Each seed gives a different hash function.
std::uint64_t Hash64(std::span<const std::byte> bytes, std::uint64_t seed);

// Hashes everything that is added as one sequence of bytes. So add the length before a value of variable length.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }
  // Adds the number as eight bytes, little endian.
  void Add(std::uint64_t number);
  // Returns the hash of everything added so far; more may be added later.
  std::uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace capstan
