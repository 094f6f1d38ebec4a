// The matrix products that a convolution and its gradients consist of, for CPU and device.
//
// Kind:   pure functions.
// Shapes: each product is for `rows` windows from `first` on; `columns` [rows, window_elements] holds these windows.
#pragma once

#include <cstdint>

#include "kernels/conv2d.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

inline std::int64_t DivideUp(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
inline std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) { return DivideUp(value, multiple) * multiple; }

// Whether every pixel is a window of its own. If so, the image array already is the matrix of columns.
inline bool IsProduct(const ImageWindows& w) {
  return w.window_height == 1 && w.window_width == 1 && w.stride == 1 && w.padding == 0;
}

// Returns the product y = activation(columns * filter' + bias), for rows [first, first + rows) of y.
template <class T>
Product<T> ForwardProduct(const Conv2dArgs<T>& args, std::int64_t first, std::int64_t rows, const T* columns) {
  const std::int64_t depth = args.shape.windows.window_elements(), filters = args.shape.filters;
  T* y = args.y + first * filters;
  return {.m = rows,
          .n = filters,
          .k = depth,
          .a = {columns, depth},
          .b = {args.filter, depth, Transpose::kYes},
          .c = y,
          .c_stride = filters,
          .bias = args.bias,
          .activation = args.activation,
          .activated = y};
}

// Returns the product c = dy * filter + beta * c, for rows [first, first + rows) of dy.
template <class T, class Out>
Product<T, Out> InputProduct(const Conv2dInputGradient<T>& g, std::int64_t first, std::int64_t rows, Out* c,
                             Wide<T> beta) {
  const std::int64_t depth = g.shape.windows.window_elements(), filters = g.shape.filters;
  return {.m = rows,
          .n = depth,
          .k = filters,
          .a = {g.dy + first * filters, filters},
          .b = {g.filter, depth},
          .c = c,
          .c_stride = depth,
          .beta = beta};
}

// Returns the product that makes the gradient of the whole filter from rows [first, first + rows) of dy and their
// windows.
template <class T>
Product<T, Wide<T>> FilterProduct(const Conv2dFilterGradient<T>& g, std::int64_t first, std::int64_t rows,
                                  const T* columns) {
  const std::int64_t depth = g.shape.windows.window_elements(), filters = g.shape.filters;
  return {.m = filters,
          .n = depth,
          .k = rows,
          .a = {g.dy + first * filters, filters, Transpose::kYes},
          .b = {columns, depth},
          .c = g.filter_gradient,
          .c_stride = depth,
          .beta = first == 0 ? g.beta : Wide<T>(1)};
}

}  // namespace capstan::kernels
