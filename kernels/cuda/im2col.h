// Im2Col, Col2Im: the device versions of kernels/im2col.h. Col2Im also adds beta * x and rounds to T.
//
// Kind:   enqueued on the context's stream.
// Shapes: x (from the first image on) and `columns` as in kernels/im2col.h; `columns` of Im2Col is aligned to 16 bytes.
// Types:  x float, Bf16 and Half; Col2Im adds floats.
// Parity: Im2Col copies. Col2Im adds the windows that contain an element, in ascending order, and rounds once.
// Limits: an image, its windows' channels, and the columns of a call of Im2Col have fewer than 2^31 elements.
#pragma once

#include <cstdint>

#include "kernels/base/context.h"
#include "kernels/base/image_windows.h"

namespace capstan::kernels {

// Writes rows [first, last) of the matrix, in which a row is a window.
template <class T>
void Im2Col(CudaContext& context, const ImageWindows& windows, std::int64_t first, std::int64_t last, const T* x,
            T* columns);

// Computes x = beta * x + the windows of all images. With beta = 0, x is written without being read.
template <class T>
void Col2Im(CudaContext& context, const ImageWindows& windows, const float* columns, float beta, T* x);

}  // namespace capstan::kernels
