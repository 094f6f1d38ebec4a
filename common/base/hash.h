// Hash64, Hasher: XXH3-64 of bytes. For comparing and detecting damage, not against an adversary.
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
// Another one for each seed.
std::uint64_t Hash64(std::span<const std::byte> bytes, std::uint64_t seed);

// The hash of everything added, one behind the other: Add a length before what varies in length.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }
  // Eight bytes, little endian.
  void Add(std::uint64_t number);
  // Of what was added so far; more may follow.
  std::uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace capstan
