#include "common/data/encoding.h"

#include <algorithm>
#include <cstring>

#include "common/data/number16.h"

namespace capstan {

namespace {

constexpr std::size_t kTile = 512;  // numbers in a tile, which stays in the first-level cache

template <class T>
void DecodeAs(const std::byte* from, std::size_t count, float* to) {
  T tile[kTile];
  for (std::size_t i = 0; i < count; i += kTile) {
    const std::size_t some = std::min(kTile, count - i);
    std::memcpy(tile, from + i * sizeof(T), some * sizeof(T));
    WidenAll(std::span<const T>(tile, some), to + i);
  }
}

template <class T>
void EncodeAs(std::span<const float> from, std::byte* to) {
  T tile[kTile];
  for (std::size_t i = 0; i < from.size(); i += kTile) {
    const std::size_t some = std::min(kTile, from.size() - i);
    NarrowAll(from.subspan(i, some), tile);
    std::memcpy(to + i * sizeof(T), tile, some * sizeof(T));
  }
}

template <class T>
void RoundToAs(std::span<float> values) {
  T tile[kTile];
  for (std::size_t i = 0; i < values.size(); i += kTile) {
    const std::size_t some = std::min(kTile, values.size() - i);
    NarrowAll(values.subspan(i, some), tile);
    WidenAll(std::span<const T>(tile, some), values.data() + i);
  }
}

}  // namespace

const char* NameOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFp32: return "fp32";
    case Encoding::kBf16: return "bf16";
    case Encoding::kFp16: return "fp16";
  }
  return "?";
}

void Decode(Encoding encoding, const std::byte* from, std::size_t count, float* to) {
  if (count == 0) return;
  switch (encoding) {
    case Encoding::kFp32: std::memcpy(to, from, count * sizeof(float)); return;
    case Encoding::kBf16: return DecodeAs<Bf16>(from, count, to);
    case Encoding::kFp16: return DecodeAs<Half>(from, count, to);
  }
}

void Encode(Encoding encoding, std::span<const float> from, std::byte* to) {
  if (from.empty()) return;
  switch (encoding) {
    case Encoding::kFp32: std::memmove(to, from.data(), from.size_bytes()); return;
    case Encoding::kBf16: return EncodeAs<Bf16>(from, to);
    case Encoding::kFp16: return EncodeAs<Half>(from, to);
  }
}

void RoundTo(Encoding encoding, std::span<float> values) {
  switch (encoding) {
    case Encoding::kFp32: return;
    case Encoding::kBf16: return RoundToAs<Bf16>(values);
    case Encoding::kFp16: return RoundToAs<Half>(values);
  }
}

}  // namespace capstan
