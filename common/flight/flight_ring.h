// FlightRing<T>: the newest values of a thread, which another thread may copy at any time.
//
// Kind:   one thread owns it and calls Add and Replace. Any thread, and a signal handler, may call written and CopyTo.
// Limits: kCapacity values; one more overwrites the oldest.
// Why:    the owner stores words without a lock. A copy may hold a value that was being written. That is one of the two
//         oldest or newest, and each of its words is whole.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace capstan {

template <class T, std::size_t kCapacity>
class FlightRing {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
  static_assert(std::has_single_bit(kCapacity));
  static constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint64_t);
  using Words = std::array<std::uint64_t, kWords>;

 public:
  static constexpr std::size_t kBytes = sizeof(T) * kCapacity;

  // Returns the value's number, counted from 0.
  std::uint64_t Add(const T& value) {
    const std::uint64_t number = written_.load(std::memory_order_relaxed);
    Store(number, value);
    written_.store(number + 1, std::memory_order_release);
    return number;
  }
  // Whether the value of this number has not been overwritten.
  bool Holds(std::uint64_t number) const {
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    return number < written && written - number <= kCapacity;
  }
  // Requires Holds(number).
  T Read(std::uint64_t number) const {
    Words words;
    const std::size_t first = FirstWord(number);
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[first + i].load(std::memory_order_relaxed);
    return std::bit_cast<T>(words);
  }
  // Requires Holds(number).
  void Replace(std::uint64_t number, const T& value) { Store(number, value); }

  std::uint64_t written() const { return written_.load(std::memory_order_acquire); }
  // Copies kBytes bytes.
  void CopyTo(std::byte* place) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(place + i * sizeof word, &word, sizeof word);
    }
  }

 private:
  static std::size_t FirstWord(std::uint64_t number) { return static_cast<std::size_t>(number % kCapacity) * kWords; }
  void Store(std::uint64_t number, const T& value) {
    const Words words = std::bit_cast<Words>(value);
    const std::size_t first = FirstWord(number);
    for (std::size_t i = 0; i < kWords; ++i) words_[first + i].store(words[i], std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, kWords* kCapacity> words_ = {};
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace capstan
