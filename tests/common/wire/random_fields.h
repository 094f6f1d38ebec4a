// Fill, Same: random contents for a struct that has a list of fields, and the comparison of two structs.
//
// Why: Fill and Same walk the struct's Fields, and Fill requires that these name every member. So a member that is not
//      listed fails the first test that fills the struct, and a listed member is part of every round trip.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/wire/part_fields.h"

namespace capstan::testing {

// ---- the number of members -----------------------------------------------------------------------------------------

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

// Stands for a value of any type, in expressions that are not evaluated.
struct AnyValue {
  template <class T>
  requires(!kIsOptional<T>)  // which has a constructor for this
  operator T() const;
};

// Returns the largest number of values that the struct can be made from: its number of members.
template <class T, class... Values>
constexpr std::size_t MemberCount() {
  if constexpr (requires { T{Values()..., AnyValue()}; }) {
    return MemberCount<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

// ---- random contents -----------------------------------------------------------------------------------------------

// `Random` is RandomStream, or another source of numbers with Below and Next64.

template <class T, class Random>
void Fill(T& value, Random& random);
template <class Tag, class Random>
void Fill(Number<Tag>& number, Random& random);

template <class Random>
void Fill(std::string& text, Random& random) {
  static const char* const kPieces[] = {"a",  "h.3.attn.w", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\x89",
                                        "\n", " ",          "/"};
  text.clear();
  for (std::uint64_t n = random.Below(20); n > 0; --n) text += kPieces[random.Below(8)];
}
template <class T, class Random>
void Fill(std::vector<T>& list, Random& random, std::size_t entries_max = kListEntriesMax) {
  if constexpr (std::is_same_v<T, Metric>) {  // bounded where they are stored
    list.resize(random.Below(3) == 0 ? random.Below(kMetricsMax + 1) : 0);
  } else {
    list.resize(std::min<std::size_t>(random.Below(8) == 0 ? random.Below(300) : random.Below(6), entries_max));
  }
  for (T& element : list) Fill(element, random);
}
template <class T, std::size_t kSize, class Random>
void Fill(std::array<T, kSize>& list, Random& random) {
  for (T& element : list) Fill(element, random);
}
template <class T, class Random>
void Fill(std::optional<T>& value, Random& random) {
  value.reset();
  if (random.Below(2) == 0) Fill(value.emplace(), random);
}
template <class Tag, class Random>
void Fill(Number<Tag>& number, Random& random) {
  Fill(number.value, random);
}

template <class Random>
struct Filler {
  Random& random;
  std::size_t count = 0;

  template <class T, class... How>
  void operator()(T& member, const How&...) {
    ++count;
    Fill(member, random);
  }
  template <class T, class Name>
  void operator()(std::vector<T>& list, const Name&, form::List form) {
    ++count;
    Fill(list, random, form.entries_max);
  }
};

template <class T, class Random>
void Fill(T& value, Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    value = random.Below(2) == 1;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(random.Below(static_cast<std::uint64_t>(LastOf(value)) + 1));
  } else if constexpr (std::is_arithmetic_v<T>) {
    const std::uint64_t bits = random.Below(4) == 0 ? random.Below(3) : random.Next64();
    std::memcpy(&value, &bits, sizeof value);  // floats too: any bits, including NaNs
  } else {
    Filler<Random> filler{random};
    Fields(filler, value);
    CAPSTAN_CHECK(filler.count == MemberCount<T>());
  }
}

// ---- equality, floats by their bits --------------------------------------------------------------------------------

// Writes the contents of structs as bytes.
class Flattener {
 public:
  const std::string& bytes() const { return bytes_; }

  template <class T, class... How>
  void operator()(const T& member, const How&...) {
    Add(member);
  }
  void Add(const std::string& text) {
    Add(text.size());
    bytes_ += text;
  }
  template <class T>
  void Add(const std::vector<T>& list) {
    Add(list.size());
    for (const T& element : list) Add(element);
  }
  template <class T, std::size_t kSize>
  void Add(const std::array<T, kSize>& list) {
    for (const T& element : list) Add(element);
  }
  template <class T>
  void Add(const std::optional<T>& value) {
    Add(value.has_value());
    if (value) Add(*value);
  }
  template <class Tag>
  void Add(const Number<Tag>& number) {
    Add(number.value);
  }
  template <class T>
  void Add(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      Fields(*this, value);
    }
  }

 private:
  std::string bytes_;
};

template <class T>
bool Same(const T& a, const T& b) {
  Flattener flat_a, flat_b;
  flat_a.Add(a);
  flat_b.Add(b);
  return flat_a.bytes() == flat_b.bytes();
}

}  // namespace capstan::testing
