// Tests what is requested from cuBLASLt, and how often. The requests go to the emulation's cuBLASLt; Counted replaces
// one of its functions.
#include "kernels/cuda/products.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"

namespace capstan::kernels {
namespace {

int asked = 0;
bool has_a_way = true;

cublasStatus_t Count(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                     cublasLtMatmulHeuristicResult_t* results, int* found) {
  ++asked;
  *results = {};
  *found = has_a_way ? 1 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

std::shared_ptr<Products> Counted(bool way) {
  asked = 0;
  has_a_way = way;
  CublasLt lt = OpenCublasLt({}).value();
  lt.MatmulAlgoGetHeuristic = Count;
  return Products::Start(lt).value();
}

constexpr ProductShape kShape{
    .rows = 8, .columns = 8, .depth = 8, .left_stride = 8, .right_stride = 8, .out_stride = 8};

TEST_CASE("a shape's way is asked for once, whether there is one or none", "[plan]") {
  for (const bool way : {true, false}) {
    const std::shared_ptr<Products> products = Counted(way);
    CHECK(products->Has(kShape) == way);
    CHECK(products->Has(kShape) == way);
    CHECK(asked == 1);
    ProductShape other = kShape;
    other.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    CHECK(products->Has(other) == way);
    other.alignment = 8;
    CHECK(products->Has(other) == way);
    CHECK(asked == 3);
    CHECK(products->Has(kShape) == way);
    CHECK(asked == 3);
  }
}

TEST_CASE("a product without a way fails and says which", "[plan]") {
  const std::shared_ptr<Products> products = Counted(false);
  Device device;
  products->Run(device.context(), kShape, {}, 1, 0);
  CHECK(device.context().status().code() == Code::kUnsupported);
  CHECK_THAT(device.context().status().message(), Catch::Contains("a product of 8 x 8 x 8"));
}

TEST_CASE("pointers that an epilogue reads or writes are said to be no better aligned than they are", "[plan]") {
  const std::shared_ptr<Products> products = Products::Start(OpenCublasLt({}).value()).value();
  ProductShape shape = kShape;
  for (const unsigned epilogue : {CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_GELU_AUX}) {
    CAPTURE(epilogue);
    shape.epilogue = epilogue;
    shape.alignment = 16;
    CHECK(products->Has(shape));
    shape.alignment = 8;
    CHECK_FALSE(products->Has(shape));
  }
}

}  // namespace
}  // namespace capstan::kernels
