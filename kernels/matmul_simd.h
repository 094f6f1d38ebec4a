// Matrix products for each instruction set, each in its own file. All but ProductAmx are instances of TileProduct.
#pragma once

#include "kernels/matmul.h"

namespace capstan::kernels {

// Computes `product` except its activation, on the calling thread; `scratch` has kMatmulTileScratch elements.
void ProductAvx2(const Product<float>& product, float* scratch);
void ProductAvx2(const Product<double>& product, double* scratch);
void ProductAvx2(const Product<Bf16, float>& product, float* scratch);
void ProductAvx2(const Product<Half, float>& product, float* scratch);
void ProductAvx512(const Product<float>& product, float* scratch);
void ProductAvx512(const Product<double>& product, double* scratch);
void ProductAvx512(const Product<Bf16, float>& product, float* scratch);
void ProductAvx512(const Product<Half, float>& product, float* scratch);
void ProductAvx512Bf16(const Product<Bf16, float>& product, float* scratch);
void ProductAmx(const Product<Bf16, float>& product, float* scratch);

}  // namespace capstan::kernels
