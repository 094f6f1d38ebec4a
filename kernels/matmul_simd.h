// The instances of TileProduct: one file and one function for each instruction set.
#pragma once

#include "kernels/matmul.h"

namespace capstan::kernels {

// Everything of `product` but the activation, on the calling thread; `scratch` has kMatmulScratch elements.
void ProductAvx2(const Product<float>& product, float* scratch);
void ProductAvx2(const Product<double>& product, double* scratch);
void ProductAvx512(const Product<float>& product, float* scratch);
void ProductAvx512(const Product<double>& product, double* scratch);

}  // namespace capstan::kernels
