#include "worker/client/reduce_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/data/number16.h"

namespace capstan::client {

namespace {

constexpr std::size_t kTile = 1024;  // numbers that are reduced together: they stay in the first cache

// The type in which a reduction computes: unsigned for integers, because their sum may wrap around.
template <class T, bool kIsInteger = std::is_integral_v<T>>
struct ComputedIn {
  using Type = Wide<T>;
};
template <class T>
struct ComputedIn<T, true> {
  using Type = std::make_unsigned_t<T>;
};

template <class T>
T At(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
auto Widened(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<typename ComputedIn<T>::Type>(value);
  } else {
    return Widen(value);
  }
}

template <class T, class W>
T Narrowed(W value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else {
    return Narrow<T>(value);
  }
}

template <Reduction kReduction, class T, class W>
W Combine(W sum, W next) {
  if constexpr (kReduction == Reduction::kSum || kReduction == Reduction::kMean) return static_cast<W>(sum + next);
  if constexpr (kReduction == Reduction::kProduct) return static_cast<W>(sum * next);
  if constexpr (std::is_integral_v<T>) {
    const T a = static_cast<T>(sum), b = static_cast<T>(next);
    return static_cast<W>(kReduction == Reduction::kMin ? std::min(a, b) : std::max(a, b));
  } else {
    if constexpr (kReduction == Reduction::kMin) return sum < next || sum != sum ? sum : next;
    return sum > next || sum != sum ? sum : next;
  }
}

template <Reduction kReduction, class T>
void Reduce(const std::vector<Slice>& parts, std::byte* result, std::size_t count) {
  using W = typename ComputedIn<T>::Type;
  W tile[kTile];
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t length = std::min(kTile, count - begin);
    for (std::size_t i = 0; i < length; ++i) tile[i] = Widened(At<T>(parts[0].data, begin + i));
    for (std::size_t rank = 1; rank < parts.size(); ++rank) {
      const std::byte* const from = parts[rank].data;
      for (std::size_t i = 0; i < length; ++i)
        tile[i] = Combine<kReduction, T, W>(tile[i], Widened(At<T>(from, begin + i)));
    }
    const W ranks = static_cast<W>(parts.size());
    for (std::size_t i = 0; i < length; ++i) {
      const T value = Narrowed<T>(kReduction == Reduction::kMean ? static_cast<W>(tile[i] / ranks) : tile[i]);
      std::memcpy(result + (begin + i) * sizeof(T), &value, sizeof(T));
    }
  }
}

template <class T>
void ReduceAs(const std::vector<Slice>& parts, Reduction reduction, std::byte* result, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(T);
  switch (reduction) {
    case Reduction::kSum: return Reduce<Reduction::kSum, T>(parts, result, count);
    case Reduction::kMean: return Reduce<Reduction::kMean, T>(parts, result, count);
    case Reduction::kMin: return Reduce<Reduction::kMin, T>(parts, result, count);
    case Reduction::kMax: return Reduce<Reduction::kMax, T>(parts, result, count);
    case Reduction::kProduct: return Reduce<Reduction::kProduct, T>(parts, result, count);
  }
}

}  // namespace

std::size_t BytesOf(NumberType type) {
  switch (type) {
    case NumberType::kFloat64:
    case NumberType::kInt64: return 8;
    case NumberType::kFloat16:
    case NumberType::kBfloat16: return 2;
    case NumberType::kUint8: return 1;
    default: return 4;
  }
}

const char* NameOf(NumberType type) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"};
  return kNames[static_cast<std::size_t>(type)];
}

const char* NameOf(Reduction reduction) {
  constexpr const char* kNames[] = {"sum", "mean", "min", "max", "product"};
  return kNames[static_cast<std::size_t>(reduction)];
}

bool IsInteger(NumberType type) {
  return type == NumberType::kInt32 || type == NumberType::kInt64 || type == NumberType::kUint8;
}

void ReduceValues(const std::vector<Slice>& parts, NumberType type, Reduction reduction, std::byte* result,
                  std::size_t bytes) {
  switch (type) {
    case NumberType::kFloat32: return ReduceAs<float>(parts, reduction, result, bytes);
    case NumberType::kFloat64: return ReduceAs<double>(parts, reduction, result, bytes);
    case NumberType::kFloat16: return ReduceAs<Half>(parts, reduction, result, bytes);
    case NumberType::kBfloat16: return ReduceAs<Bf16>(parts, reduction, result, bytes);
    case NumberType::kInt32: return ReduceAs<std::int32_t>(parts, reduction, result, bytes);
    case NumberType::kInt64: return ReduceAs<std::int64_t>(parts, reduction, result, bytes);
    case NumberType::kUint8: return ReduceAs<std::uint8_t>(parts, reduction, result, bytes);
  }
}

}  // namespace capstan::client
