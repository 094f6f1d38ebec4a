#include "worker/data/cifar10.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "common/config/job/data_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "tests/worker/data/gzip.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

namespace {

using testing::TempFolder;

constexpr int kSide = 32;

// Returns a pixel of image `number` of a file. No two images are alike, and none equals itself shifted or mirrored.
unsigned char Pixel(int number, int channel, int row, int column) {
  const auto x = static_cast<unsigned>(number * 7919 + channel * 104729 + row * 1299709 + column * 15485863 + 12345);
  return static_cast<unsigned char>((x * 2654435761U) >> 24);
}

std::string File(int first, int count) {
  std::string bytes;
  for (int number = first; number < first + count; ++number) {
    bytes += static_cast<char>(number % 10);
    for (int channel = 0; channel < 3; ++channel) {
      for (int pixel = 0; pixel < kSide * kSide; ++pixel) {
        bytes += static_cast<char>(Pixel(number, channel, pixel / kSide, pixel % kSide));
      }
    }
  }
  return bytes;
}

// Writes files with the training images 0 to 16 and the held-out images 100 to 102.
void WriteFiles(const TempFolder& folder) {
  const int counts[] = {5, 1, 3, 7, 1};
  for (int i = 0, first = 0; i < 5; first += counts[i++]) {
    folder.Write("c/data_batch_" + std::to_string(i + 1) + ".bin", File(first, counts[i]));
  }
  folder.Write("c/test_batch.bin", File(100, 3));
}

EditableJobConfig Job(bool crop = true, bool flip = true) {
  EditableJobConfig config;
  config.data.kind = DataKind::kCifar10;
  config.data.path = "c";
  config.data.crop = crop;
  config.data.flip = flip;
  return config;
}

std::unique_ptr<Dataset> OpenCifar(const JobConfig& config, const TempFolder& folder) {
  auto dataset = OpenDataset(config, folder.path());
  INFO(dataset.status().message());
  REQUIRE(dataset.ok());
  return std::move(dataset).value();
}

Status Refusal(const TempFolder& folder) {
  const auto dataset = OpenDataset(Job(), folder.path());
  REQUIRE_FALSE(dataset.ok());
  return dataset.status();
}

BatchBuffer FillPicture(const Dataset& dataset, const std::vector<std::uint64_t>& samples, const DrawKey& key,
                        Split split = Split::kTraining) {
  BatchBuffer batch;
  batch.inputs.assign(samples.size() * 3072 + 5, std::numeric_limits<float>::quiet_NaN());
  REQUIRE(dataset.Fill(samples, split, key, &batch).ok());
  REQUIRE(batch.inputs.size() == samples.size() * 3072);
  return batch;
}

// How the dataset has changed an image: moved down and right by so many pixels, with black in the empty places, and
// then mirrored or not.
using Look = std::tuple<int, int, bool>;

bool Matches(const float* got, int number, const Look& look) {
  constexpr double kMean[] = {0.4914, 0.4822, 0.4465}, kDeviation[] = {0.2470, 0.2435, 0.2616};
  const auto [down, right, mirrored] = look;
  for (int i = 0; i < 3072; ++i) {
    const int channel = i % 3, column = i / 3 % kSide, row = i / 3 / kSide;
    const int from_row = row - down, from_column = (mirrored ? kSide - 1 - column : column) - right;
    const bool inside = from_row >= 0 && from_row < kSide && from_column >= 0 && from_column < kSide;
    const double byte = inside ? Pixel(number, channel, from_row, from_column) : 0;
    // Written as "not less" instead of "greater", so that a NaN does not match.
    if (!(std::abs(got[i] - (byte / 255 - kMean[channel]) / kDeviation[channel]) < 1e-5)) return false;
  }
  return true;
}

Look FindLook(const float* got, int number) {
  std::vector<Look> found;
  for (int down = -5; down <= 5; ++down) {
    for (int right = -5; right <= 5; ++right) {
      for (const bool mirrored : {false, true}) {
        if (Matches(got, number, {down, right, mirrored})) found.emplace_back(down, right, mirrored);
      }
    }
  }
  REQUIRE(found.size() == 1);
  return found[0];
}

}  // namespace

TEST_CASE("planes become pixels, and numbers are those of their channel", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const auto dataset = OpenCifar(Job(false, false), folder);
  CHECK(dataset->spec().form == SampleForm::kFeatures);
  CHECK(dataset->spec().features == 3072);
  CHECK(dataset->spec().classes == 10);
  CHECK(dataset->spec().image == ImageShape{32, 32, 3});
  CHECK(dataset->count(Split::kTraining) == 17);
  CHECK(dataset->count(Split::kValidation) == 3);
  const BatchBuffer batch = FillPicture(*dataset, {16, 0, 5, 15}, {3, 4, 5});
  CHECK(batch.targets == std::vector<std::int32_t>{6, 0, 5, 5});
  const int numbers[] = {16, 0, 5, 15};
  for (int i = 0; i < 4; ++i) CHECK(Matches(batch.inputs.data() + i * 3072, numbers[i], {0, 0, false}));
}

TEST_CASE("training images are cropped and flipped everywhere about equally often", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const auto dataset = OpenCifar(Job(), folder);
  std::map<int, int> down, right, mirrored;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const BatchBuffer batch = FillPicture(*dataset, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, step, 2});
    for (int i = 0; i < 9; ++i) {
      const Look look = FindLook(batch.inputs.data() + i * 3072, i);
      ++down[std::get<0>(look)];
      ++right[std::get<1>(look)];
      ++mirrored[std::get<2>(look)];
      CHECK(batch.targets[static_cast<std::size_t>(i)] == i);
    }
  }
  for (const auto& places : {down, right}) {
    CHECK(places.size() == 9);
    CHECK(places.begin()->first == -4);
    CHECK(places.rbegin()->first == 4);
    for (const auto& [place, count] : places) CHECK((count > 5 && count < 45));  // 20 on average
  }
  CHECK((mirrored[1] > 60 && mirrored[1] < 120));
}

TEST_CASE("crop and flip are switched off one by one", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const auto cropped = OpenCifar(Job(true, false), folder), flipped = OpenCifar(Job(false, true), folder);
  int moved = 0, mirrored = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Look crop = FindLook(FillPicture(*cropped, {3}, {1, step, 0}).inputs.data(), 3);
    CHECK_FALSE(std::get<2>(crop));
    moved += std::get<0>(crop) != 0 || std::get<1>(crop) != 0 ? 1 : 0;
    const Look flip = FindLook(FillPicture(*flipped, {3}, {1, step, 0}).inputs.data(), 3);
    CHECK((std::get<0>(flip) == 0 && std::get<1>(flip) == 0));
    mirrored += std::get<2>(flip) ? 1 : 0;
  }
  CHECK(moved > 10);
  CHECK((mirrored > 2 && mirrored < 18));
}

TEST_CASE("a view follows from seed, step, slot and sample, and from nothing else", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const auto dataset = OpenCifar(Job(), folder);
  const std::vector<std::uint64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const DrawKey key{7, 8, 9};
  const BatchBuffer together = FillPicture(*dataset, all, key);
  const auto again = OpenCifar(Job(), folder);
  for (const std::uint64_t sample : {16U, 0U, 7U}) {
    const BatchBuffer alone = FillPicture(*again, {sample}, key);
    CHECK(std::equal(alone.inputs.begin(), alone.inputs.end(), together.inputs.begin() + sample * 3072));
  }
  for (const DrawKey& other : {DrawKey{6, 8, 9}, DrawKey{7, 7, 9}, DrawKey{7, 8, 8}, DrawKey{7, 9, 8}}) {
    CHECK(FillPicture(*dataset, all, other).inputs != together.inputs);
  }
}

TEST_CASE("held-out images are as they are", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const auto dataset = OpenCifar(Job(), folder);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const BatchBuffer batch = FillPicture(*dataset, {2, 0}, {1, step, 2}, Split::kValidation);
    CHECK(Matches(batch.inputs.data(), 102, {0, 0, false}));
    CHECK(Matches(batch.inputs.data() + 3072, 100, {0, 0, false}));
    CHECK(batch.targets == std::vector<std::int32_t>{2, 0});
  }
}

TEST_CASE("the fingerprint of cifar10 is of its images", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  const std::uint64_t before = OpenCifar(Job(), folder)->fingerprint();
  folder.Write("c/test_batch.bin", Gzip(File(100, 3)));
  CHECK(OpenCifar(Job(), folder)->fingerprint() == before);
  folder.Write("c/test_batch.bin", File(101, 3));
  CHECK(OpenCifar(Job(), folder)->fingerprint() != before);
}

TEST_CASE("another version of cifar10 is named as what it is, with the one that is wanted", "[cifar10]") {
  for (const auto& [file, version] : {std::pair{"c/data_batch_1", "Python"},
                                      {"c/cifar-10-batches-py/data_batch_1", "Python"},
                                      {"c/data_batch_1.mat", "Matlab"}}) {
    const TempFolder folder;
    folder.Write(file, "a pickle");
    CHECK_THAT(Refusal(folder).message(), Contains(std::string(file) + " is of cifar10's " + version + " version") &&
                                              Contains("cifar-10-binary.tar.gz"));
    WriteFiles(folder);  // next to the right file it does not matter
    CHECK(OpenDataset(Job(), folder.path()).ok());
  }
  const TempFolder folder;
  folder.Write("c/cifar-10-batches-bin/data_batch_1.bin", File(0, 1));
  CHECK_THAT(Refusal(folder).message(), Contains("name that folder in [data] path"));
}

TEST_CASE("files of cifar10 that are missing or damaged are named with what is wrong", "[cifar10]") {
  const TempFolder folder;
  WriteFiles(folder);
  std::string bytes = File(0, 7);
  bytes[6 * 3073] = 10;
  folder.Write("c/data_batch_4.bin", bytes);
  const Status bad = Refusal(folder);
  CHECK(bad.code() == Code::kCorrupt);
  CHECK_THAT(bad.message(), Contains("c/data_batch_4.bin: image 6 has class 10, and classes are 0 to 9"));
  for (const std::size_t size : {std::size_t{0}, bytes.size() - 1, bytes.size() - 3072, std::size_t{3074}}) {
    folder.Write("c/data_batch_4.bin", bytes.substr(0, size));
    CHECK_THAT(Refusal(folder).message(), Contains("c/data_batch_4.bin: " + std::to_string(size) + " bytes"));
  }
  std::filesystem::remove(folder.path("c/data_batch_4.bin"));
  CHECK_THAT(Refusal(folder).message(), Contains("c/data_batch_4.bin: cannot read the data: No such file"));
}
