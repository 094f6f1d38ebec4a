// Im2Col copies the windows of images into rows of a matrix, so that a convolution is a product. Col2Im adds such rows
// to the images again.
//
// Kind:   run on the calling thread, for kernels whose tasks are ranges of rows.
// Shapes: x as in image_windows.h; columns [last - first, window_elements]. Row (n * out_height + p) * out_width + q is
//         the window (p, q) of image n; its elements outside the image are 0.
// Types:  Im2Col any type of number; Col2Im float and double, the type of its sums.
// Parity: Im2Col copies. Col2Im adds the rows in ascending order.
#pragma once

#include <cstdint>

#include "kernels/base/image_windows.h"

namespace capstan::kernels {

// Writes rows [first, last) of the matrix, in which a row is a window.
template <class T>
void Im2Col(const ImageWindows& windows, std::int64_t first, std::int64_t last, const T* x, T* columns);

// Adds each window of rows [first, last) to x. `x` begins with the image of row `first`.
template <class T>
void Col2Im(const ImageWindows& windows, std::int64_t first, std::int64_t last, const T* columns, T* x);

}  // namespace capstan::kernels
