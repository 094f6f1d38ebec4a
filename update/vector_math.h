// V8: eight elements, and the functions of one element or of eight that the optimizers' formulas share.
//
// Kind:   internal to block_update.cc, whose compiler options let a function return V8.
// Types:  fp32.
#pragma once

#include <cmath>

namespace capstan::formulas {

// The compiler's vector types do not depend on the instruction set. The same expressions run on V8 and on float.
using V8 = float __attribute__((vector_size(32)));

inline float Sqrt(float x) { return std::sqrt(x); }
inline V8 Sqrt(V8 x) {
  V8 root;
  for (int lane = 0; lane < 8; ++lane) root[lane] = std::sqrt(x[lane]);
  return root;
}

// The functions below return NaN for a NaN in `x` (Sign: 0); a step with a gradient that is not finite is not applied.
template <class V>
V Largest(V x, V other) {
  return x < other ? other : x;
}
template <class V>
V Magnitude(V x) {
  return x < V{} ? -x : x;
}
template <class V>
V Sign(V x) {
  const V zero{}, one = zero + 1.0F;
  return x > zero ? one : (x < zero ? -one : zero);
}
// Returns x within [-limit, limit].
template <class V>
V Clamped(V x, float limit) {
  const V high = V{} + limit;
  return x > high ? high : (x < -high ? -high : x);
}

}  // namespace capstan::formulas
