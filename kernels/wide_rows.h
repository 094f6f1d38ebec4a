// WideRow, WideRowInPlace, WideResult, Round, RoundedRow: convert a row of any type of number to Wide<T>, in which
// kernels compute, and back.
//
// Types:  for float and double it is the row itself, and nothing is copied. For Bf16 and Half it is a copy in
//         `scratch`, which has as many elements as the row (WideScratch).
// Parity: widening is exact, and a result is rounded once, by Round.
// Why:    a kernel is written once, on wide numbers; the copy stays in the first cache.
#pragma once

#include <cstdint>

#include "common/data/number16.h"

namespace capstan::kernels {

// Returns the number of elements of scratch for rows of `count` elements in total.
template <class T>
constexpr std::int64_t WideScratch(std::int64_t count) {
  return kIs16Bit<T> ? count : 0;
}

// Returns the row for reading.
template <class T>
inline const Wide<T>* WideRow(const T* row, std::int64_t count, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    WidenAll({row, static_cast<std::size_t>(count)}, scratch);
    return scratch;
  } else {
    return row;
  }
}

// Returns the row for reading and changing; call Round at the end.
template <class T>
inline Wide<T>* WideRowInPlace(T* row, std::int64_t count, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    WidenAll({row, static_cast<std::size_t>(count)}, scratch);
    return scratch;
  } else {
    return row;
  }
}

// Returns a row that is written without being read; call Round at the end.
template <class T>
inline Wide<T>* WideResult(T* row, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    return scratch;
  } else {
    return row;
  }
}

// Writes the wide form's values to `row`.
template <class T>
inline void Round(const Wide<T>* wide, std::int64_t count, T* row) {
  if constexpr (kIs16Bit<T>) NarrowAll({wide, static_cast<std::size_t>(count)}, row);
}

// Returns the values as T: in `scratch`, or in place.
template <class T>
inline const T* RoundedRow(const Wide<T>* wide, std::int64_t count, T* scratch) {
  if constexpr (kIs16Bit<T>) {
    Round(wide, count, scratch);
    return scratch;
  } else {
    return wide;
  }
}

}  // namespace capstan::kernels
