// WideRow, WideRowInPlace, WideResult, Round, RoundedRow: convert a row of any type of number to Wide<T>, in which
// kernels compute, and back.
//
// Types:  for float and double the wide form is the row itself, and nothing is copied. For Bf16 and Half it is a copy
//         in `scratch`, which has as many elements as the row (WideScratch).
// Parity: widening is exact, and a result is rounded once, by Round.
// Why:    a kernel is written once, on wide numbers; the copy stays in the first-level cache.
#pragma once

#include <cstdint>

#include "common/data/number16.h"

namespace capstan::kernels {

// Returns the number of elements of scratch for rows of `count` elements in total.
template <class T>
constexpr std::int64_t WideScratch(std::int64_t count) {
  return kIs16Bit<T> ? count : 0;
}

// Returns the row's wide form for reading.
template <class T>
inline const Wide<T>* WideRow(const T* row, std::int64_t count, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    WidenAll({row, static_cast<std::size_t>(count)}, scratch);
    return scratch;
  } else {
    return row;
  }
}

// Returns the row's wide form for reading and changing. Call Round at the end.
template <class T>
inline Wide<T>* WideRowInPlace(T* row, std::int64_t count, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    WidenAll({row, static_cast<std::size_t>(count)}, scratch);
    return scratch;
  } else {
    return row;
  }
}

// Returns memory for the wide form of a row that will be written without being read. Call Round at the end.
template <class T>
inline Wide<T>* WideResult(T* row, Wide<T>* scratch) {
  if constexpr (kIs16Bit<T>) {
    return scratch;
  } else {
    return row;
  }
}

// Rounds the wide form's values into `row`. For float and double it does nothing: the wide form is the row.
template <class T>
inline void Round(const Wide<T>* wide, std::int64_t count, T* row) {
  if constexpr (kIs16Bit<T>) NarrowAll({wide, static_cast<std::size_t>(count)}, row);
}

// Returns the values of a wide row as T: rounded in `scratch` if T has 16 bits, else the row itself.
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
