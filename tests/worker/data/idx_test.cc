#include "worker/data/idx.h"

#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "tests/worker/data/gzip.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

namespace {

using testing::TempFolder;

std::string Idx(const std::vector<std::uint32_t>& extents, const std::string& values, char type = 0x08) {
  std::string bytes = {0, 0, type, static_cast<char>(extents.size())};
  for (std::uint32_t extent : extents) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + values;
}

Result<FeatureTable<std::uint8_t>> Read(const std::string& images, const std::string& labels) {
  const TempFolder folder;
  return ReadIdx(folder.Write("images", images), folder.Write("labels", labels));
}

std::string Message(const std::string& images, const std::string& labels) {
  const auto table = Read(images, labels);
  REQUIRE_FALSE(table.ok());
  return table.status().message();
}

const std::string kImages = Idx({2, 1, 3}, {1, 2, 3, 4, 5, static_cast<char>(255)});
const std::string kLabels = Idx({2}, {7, 0});

}  // namespace

TEST_CASE("images and labels are read, plain and packed", "[idx]") {
  for (const auto& table : {Read(kImages, kLabels), Read(Gzip(kImages), Gzip(kLabels))}) {
    REQUIRE(table.ok());
    CHECK(table->features == 3);
    CHECK(table->classes == 8);
    CHECK(table->inputs == std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
    CHECK(table->labels == std::vector<std::int32_t>{7, 0});
  }
  CHECK(Read(kImages, kLabels)->fingerprint == Read(Gzip(kImages), kLabels)->fingerprint);
  CHECK(Read(kImages, kLabels)->fingerprint != Read(kImages, Idx({2}, {7, 1}))->fingerprint);
}

TEST_CASE("images state their shape, rows of numbers have none", "[idx]") {
  const auto shape = [](const std::vector<std::uint32_t>& extents) {
    const auto table = Read(Idx(extents, std::string(24, 1)), Idx({extents[0]}, std::string(extents[0], 1)));
    REQUIRE(table.ok());
    return table->image;
  };
  CHECK(shape({4, 2, 3}) == ImageShape{2, 3, 1});
  CHECK(shape({2, 2, 2, 3}) == ImageShape{2, 2, 3});
  CHECK(shape({4, 6}) == ImageShape{});
  CHECK(shape({2, 1, 2, 2, 3}) == ImageShape{});
}

TEST_CASE("a file that is not idx is refused with what it starts with", "[idx]") {
  CHECK_THAT(Message("PNG and more", kLabels), Contains("images: not an idx file") && Contains("504e4720"));
  CHECK_THAT(Message(Idx({2, 3}, std::string(6, 1), 0x0D), kLabels), Contains("00000d02"));
  CHECK_THAT(Message("ab", kLabels), Contains("2 bytes"));
  CHECK_THAT(Message(Idx({2, 1, 3}, "").substr(0, 9), kLabels), Contains("truncated within its header"));
}

TEST_CASE("sizes that do not fit are refused", "[idx]") {
  CHECK_THAT(Message(kImages.substr(0, kImages.size() - 1), kLabels), Contains("announces 6 values and 5 follow"));
  CHECK_THAT(Message(kImages + "x", kLabels), Contains("announces 6 values and 7 follow"));
  CHECK_THAT(Message(Idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, ""), kLabels), Contains("0 follow"));
  CHECK_THAT(Message(kImages, Idx({3}, {0, 1, 2})), Contains("has 2 images") && Contains("has 3 labels"));
  CHECK_THAT(Message(kLabels, kImages), Contains("Are path and labels swapped?"));
  CHECK_THAT(Message(Idx({0, 3}, ""), kLabels), Contains("no images in it"));
  CHECK_THAT(Message(Idx({2, 0}, ""), kLabels), Contains("no images in it"));
}
