// Tests the NCCL of this machine, if it has one. Opening NCCL needs no GPU.
#include "kernels/cuda/nccl.h"

#include "tests/catch.h"

namespace capstan::kernels {
namespace {

TEST_CASE("the NCCL that is found has all functions, and tells its version", "[nccl]") {
  const Result<Nccl> nccl = OpenNccl({.toolkit = "/usr/local/cuda"});
  if (!nccl.ok()) {
    WARN(nccl.status().message());
    CHECK_THAT(nccl.status().message(), Catch::Contains("libnccl.so.2 was not found"));
    return;
  }
  CHECK(nccl->version >= 21800);
  CHECK_THAT(NcclVersionText(nccl->version), Catch::StartsWith("2."));
  CHECK(std::string(nccl->GetErrorString(ncclInvalidUsage)).find("invalid usage") != std::string::npos);
}

TEST_CASE("a version is written as people say it", "[nccl]") {
  CHECK(NcclVersionText(22809) == "2.28.9");
  CHECK(NcclVersionText(21805) == "2.18.5");
}

TEST_CASE("an NCCL that is nowhere is said to be, with every place", "[nccl]") {
  const Status status = OpenNcclNamed({.folders = {"/nowhere"}}, "libcapstan_no_nccl.so.2").status();
  CHECK(status.code() == Code::kUnsupported);
  CHECK_THAT(status.message(), Catch::Contains("/nowhere/") && Catch::Contains("/usr/local/cuda/lib64/"));
}

}  // namespace
}  // namespace capstan::kernels
