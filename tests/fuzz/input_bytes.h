// InputBytes: uses the bytes of an input as a sequence of choices.
//
// Kind:   a value of one run of a target. After the last byte, every choice is 0.
// Why:    it replaces RandomStream, so that a fuzzer makes the choices that a seed makes elsewhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace capstan::fuzz {

class InputBytes {
 public:
  explicit InputBytes(std::string_view bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t Next() { return static_cast<std::uint8_t>(Number(1)); }
  std::uint64_t Next64() { return Number(8); }
  std::uint64_t Below(std::uint64_t bound) {
    if (bound <= 1) return 0;
    return Number(bound <= 256 ? 1 : bound <= 65536 ? 2 : 8) % bound;
  }
  // Takes `count` bytes; fewer if fewer are left.
  std::string_view Take(std::size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::uint64_t Number(std::size_t bytes) {
    std::uint64_t number = 0;
    for (const char byte : Take(bytes)) number = number << 8 | static_cast<std::uint8_t>(byte);
    return number;
  }

  std::string_view left_;
};

}  // namespace capstan::fuzz
