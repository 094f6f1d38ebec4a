// Fields(struct): its members as a tuple of references. Fill and Same walk them.
//
// Why: a member added to a struct does not compile here until it is listed; then every round trip covers it. This file
//      has the structs shared by messages and stored records; others have their Fields in their own namespace.
#pragma once

#include <capstan/hyper_parameters.h>
#include <capstan/metric.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::testing {

// clang-format off
inline auto Fields(JobId& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(Init& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(TensorSpec& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(HyperParameters& m) { auto& [a, b, c, d, e, f, g] = m; return std::tie(a, b, c, d, e, f, g); }
inline auto Fields(StepParameters& m) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
inline auto Fields(Metric& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(SlotReport& m) { auto& [a, b, c, d, e, f, g, h, i, j] = m; return std::tie(a, b, c, d, e, f, g, h, i, j); }
inline auto Fields(SnapshotId& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(SnapshotPart& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(StepReport& m) { auto& [a, b] = m; return std::tie(a, b); }
// clang-format on

// ---- how many values an enum has -----------------------------------------------------------------------------------

inline unsigned CountOf(InitKind) { return 5; }
inline unsigned CountOf(Encoding) { return 3; }
inline unsigned CountOf(TensorKind) { return 2; }

// ---- random contents -----------------------------------------------------------------------------------------------

// Random: RandomStream, or another source of numbers with Below and Next64.

template <class T, class Random>
void Fill(T& value, Random& random);

template <class Random>
void Fill(std::string& text, Random& random) {
  static const char* const kPieces[] = {"a",  "h.3.attn.w", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8E\x89",
                                        "\n", " ",          "/"};
  text.clear();
  for (std::uint64_t n = random.Below(20); n > 0; --n) text += kPieces[random.Below(8)];
}
template <class T, class Random>
void Fill(std::vector<T>& list, Random& random) {
  list.resize(random.Below(8) == 0 ? random.Below(300) : random.Below(6));
  for (T& element : list) Fill(element, random);
}
template <class Random>
void Fill(std::vector<std::int64_t>& shape, Random& random) {  // the only list of this type, and a bounded one
  shape.resize(random.Below(9));
  for (std::int64_t& extent : shape) Fill(extent, random);
}
template <class Random>
void Fill(Metric& metric, Random& random);
template <class Random>
void Fill(std::vector<Metric>& metrics, Random& random) {  // bounded where they are stored
  metrics.resize(random.Below(3) == 0 ? random.Below(kMetricsMax + 1) : 0);
  for (Metric& metric : metrics) Fill(metric, random);
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
template <class T, class Random>
void Fill(T& value, Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    value = random.Below(2) == 1;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(random.Below(CountOf(value)));
  } else if constexpr (std::is_arithmetic_v<T>) {
    const std::uint64_t bits = random.Below(4) == 0 ? random.Below(3) : random.Next64();
    std::memcpy(&value, &bits, sizeof value);  // floats too: any bits, including NaNs
  } else {
    std::apply([&](auto&... field) { (Fill(field, random), ...); }, Fields(value));
  }
}

template <class Random>
void Fill(Metric& metric, Random& random) {
  Fill<Metric, Random>(metric, random);
}

// ---- equality, floats by their bits --------------------------------------------------------------------------------

template <class T>
bool Same(T& a, T& b);

template <class T>
bool Same(std::vector<T>& a, std::vector<T>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = Same(a[i], b[i]);
  return same;
}
template <class T>
bool Same(std::optional<T>& a, std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a.has_value() || Same(*a, *b));
}
template <class Tag>
bool Same(Number<Tag>& a, Number<Tag>& b) {
  return a == b;
}
template <class T>
bool Same(T& a, T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>) {
    return a == b;
  } else {
    auto left = Fields(a), right = Fields(b);
    return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      return (Same(std::get<kIndex>(left), std::get<kIndex>(right)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(left)>>());
  }
}

}  // namespace capstan::testing
