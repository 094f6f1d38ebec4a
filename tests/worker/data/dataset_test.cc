#include "worker/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/compared_with_nothing.h"
#include "tests/temp_folder.h"
#include "worker/data/list_files.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

namespace {

using testing::TempFolder;

EditableJobConfig TextJob(const std::string& path, std::uint32_t context) {
  EditableJobConfig config;
  config.model.kind = ModelKind::kGpt;
  config.model.context = context;
  config.data.kind = DataKind::kText;
  config.data.path = path;
  config.data.validation = 0;
  return config;
}

EditableJobConfig TableJob(DataKind kind, const std::string& path, double scale) {
  EditableJobConfig config;
  config.data.kind = kind;
  config.data.path = path;
  config.data.scale = scale;
  config.data.validation = 0;
  return config;
}

std::unique_ptr<Dataset> Open(const JobConfig& config, const std::filesystem::path& root) {
  auto dataset = OpenDataset(config, root);
  INFO(dataset.status().message());
  REQUIRE(dataset.ok());
  return std::move(dataset).value();
}

std::string Message(const JobConfig& config, const std::filesystem::path& root) {
  const auto dataset = OpenDataset(config, root);
  REQUIRE_FALSE(dataset.ok());
  return dataset.status().message();
}

// Called when the test's data is not on this machine. Fails on a machine that must have all data; on others, records
// that this data was not read.
void Miss(const std::string& data, const std::string& why) {
  if (testing::MustHaveAll()) FAIL(why << ": " << data << " cannot be read");
  testing::ComparedWithNothing(data, why);
}

BatchBuffer Fill(const Dataset& dataset, const std::vector<std::uint64_t>& samples, Split split = Split::kTraining) {
  BatchBuffer batch;
  REQUIRE(dataset.Fill(samples, split, {}, &batch).ok());
  return batch;
}

}  // namespace

TEST_CASE("a sample of text is its window, and the targets are the bytes behind each", "[text]") {
  const TempFolder folder;
  folder.Write("a.txt", "abcdefghij\xff");
  const auto dataset = Open(TextJob("a.txt", 5), folder.path());
  CHECK(dataset->spec().form == SampleForm::kTokens);
  CHECK(dataset->spec().vocabulary == 256);
  CHECK(dataset->spec().context == 5);
  CHECK(dataset->count(Split::kTraining) == 2);
  const BatchBuffer batch = Fill(*dataset, {1, 0});
  CHECK(batch.samples == 2);
  CHECK(batch.inputs.empty());
  CHECK(batch.tokens == std::vector<std::int32_t>{'f', 'g', 'h', 'i', 'j', 'a', 'b', 'c', 'd', 'e'});
  CHECK(batch.targets == std::vector<std::int32_t>{'g', 'h', 'i', 'j', 255, 'b', 'c', 'd', 'e', 'f'});
}

TEST_CASE("a folder is its files in the order of their paths", "[text]") {
  const TempFolder folder;
  folder.Write("t/b.h", "BB");
  folder.Write("t/a/z.h", "AZ");
  folder.Write("t/a.cc", "CC");
  folder.Write("t/c++/vector", "VV");
  const auto root = folder.path("t");
  CHECK(*ListFiles(root, {}) == std::vector<std::string>{"a.cc", "a/z.h", "b.h", "c++/vector"});
  CHECK(*ListFiles(root, {"*.h"}) == std::vector<std::string>{"a/z.h", "b.h"});
  CHECK(*ListFiles(root, {"c++/*", "b.*"}) == std::vector<std::string>{"b.h", "c++/vector"});
  CHECK_THAT(ListFiles(root, {"*.py", "x/*"}).status().message(), Contains("match [data] include = *.py, x/*"));
  EditableJobConfig config = TextJob("t", 3);
  const auto all = Open(config, folder.path());
  CHECK(Fill(*all, {0}).tokens == std::vector<std::int32_t>{'C', 'C', 'A'});
  config.data.include = {"*.h"};
  const auto headers = Open(config, folder.path());
  CHECK(Fill(*headers, {0}).tokens == std::vector<std::int32_t>{'A', 'Z', 'B'});
  CHECK(headers->fingerprint() != all->fingerprint());
}

TEST_CASE("text stops at max_bytes", "[text]") {
  const TempFolder folder;
  folder.Write("t/a", std::string(100, 'a'));
  folder.Write("t/b", std::string(100, 'b'));
  EditableJobConfig config = TextJob("t", 10);
  config.data.max_bytes = 121;
  CHECK(Open(config, folder.path())->count(Split::kTraining) == 12);
}

TEST_CASE("the fingerprint of text is of names and contents, not of the place", "[text]") {
  const TempFolder folder;
  folder.Write("x/a", "hello");
  folder.Write("y/a", "hello");
  folder.Write("z/b", "hello");
  folder.Write("w/a", "hellO");
  auto fingerprint = [&](const char* name) { return Open(TextJob(name, 2), folder.path())->fingerprint(); };
  CHECK(fingerprint("x") == fingerprint("y"));
  CHECK(fingerprint("x") != fingerprint("z"));
  CHECK(fingerprint("x") != fingerprint("w"));
}

TEST_CASE("text that is missing, empty or short is refused with what to do", "[text]") {
  const TempFolder folder;
  folder.Write("short", "abc");
  std::filesystem::create_directories(folder.path("empty"));
  CHECK_THAT(Message(TextJob("nothing", 4), folder.path()), Contains("nothing: cannot read the data: No such file"));
  const std::string whole = Message(TextJob(folder.path("nothing"), 4), "/");  // as launch writes it
  CHECK_THAT(whole, Contains("No such file") && Contains("check [data] path") && !Contains("--data-root"));
  CHECK_THAT(Message(TextJob("empty", 4), folder.path()), Contains("empty: no files in this folder"));
  CHECK_THAT(Message(TextJob("short", 4), folder.path()),
             Contains("short: 3 bytes of text, and one sample takes 5 ([model] context + 1)"));
  CHECK_THAT(Message(TextJob("../x", 4), folder.path()), Contains("leads out of the data folder"));
}

TEST_CASE("inputs of csv and idx are divided by scale", "[data]") {
  const TempFolder folder;
  folder.Write("t.csv", "8,4,0\n2,16,1\n");
  folder.Write("images", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x01\x33\xff", 14));
  folder.Write("labels", std::string("\0\0\x08\x01\0\0\0\x02\x00\x01", 10));
  const auto csv = Open(TableJob(DataKind::kCsv, "t.csv", 16), folder.path());
  CHECK(csv->spec().features == 2);
  CHECK(csv->spec().classes == 2);
  const BatchBuffer batch = Fill(*csv, {1, 0, 1});
  CHECK(batch.inputs == std::vector<float>{0.125F, 1, 0.5F, 0.25F, 0.125F, 1});
  CHECK(batch.targets == std::vector<std::int32_t>{1, 0, 1});
  EditableJobConfig config = TableJob(DataKind::kIdx, "images", 255);
  config.data.labels = "labels";
  CHECK(Fill(*Open(config, folder.path()), {0, 1}).inputs == std::vector<float>{51.0F / 255.0F, 1});
  CHECK(Open(config, folder.path())->spec().image == ImageShape{});
  config.data.labels = "../labels";
  CHECK_THAT(Message(config, folder.path()), Contains("\"../labels\" leads out of the data folder"));
}

TEST_CASE("rows are images where the job says so, and their numbers must be as many", "[data]") {
  const TempFolder folder;
  folder.Write("t.csv", "8,4,3,2,1,0,0\n2,16,5,6,7,8,1\n");
  EditableJobConfig config = TableJob(DataKind::kCsv, "t.csv", 1);
  CHECK(Open(config, folder.path())->spec().image == ImageShape{});
  config.data.image = {3, 1, 2};
  CHECK(Open(config, folder.path())->spec().image == ImageShape{3, 1, 2});
  config.data.image = {3, 3, 1};
  CHECK_THAT(Message(config, folder.path()),
             Contains("t.csv: its rows have 6 numbers beside the label, and [data] image has 9"));
  config.data.kind = DataKind::kSynthetic;
  CHECK(Open(config, "/")->spec().image == ImageShape{3, 3, 1});
  CHECK(Fill(*Open(config, "/"), {0, 1}).inputs.size() == 18);
}

TEST_CASE("data with one class only is refused", "[data]") {
  const TempFolder folder;
  folder.Write("t.csv", "8,4,0\n2,16,0\n");
  CHECK_THAT(Message(TableJob(DataKind::kCsv, "t.csv", 1), folder.path()), Contains("every label is 0"));
}

TEST_CASE("a buffer is filled again without growing", "[data]") {
  EditableJobConfig config;
  const auto dataset = Open(config, "/");
  BatchBuffer batch;
  const std::vector<std::uint64_t> samples = {1, 2, 3};
  REQUIRE(dataset->Fill(samples, Split::kTraining, {}, &batch).ok());
  const float* inputs = batch.inputs.data();
  REQUIRE(dataset->Fill(std::span(samples).first(2), Split::kTraining, {}, &batch).ok());
  CHECK(batch.samples == 2);
  CHECK(batch.inputs.size() == 2 * dataset->spec().features);
  CHECK(batch.inputs.data() == inputs);
  REQUIRE(dataset->Fill({}, Split::kTraining, {}, &batch).ok());
  CHECK(batch.samples == 0);
  CHECK(batch.inputs.empty());
}

TEST_CASE("synthetic classes are a function of seed and sample, and can be told apart", "[synthetic]") {
  EditableJobConfig config;
  config.data.samples = 1000;
  config.data.validation = 0.25;
  const auto dataset = Open(config, "/");
  CHECK(dataset->spec().features == 32);
  CHECK(dataset->spec().classes == 10);
  CHECK(dataset->count(Split::kTraining) == 750);
  CHECK(dataset->count(Split::kValidation) == 250);
  CHECK(Fill(*dataset, {3, 4}).inputs == Fill(*Open(config, "/"), {3, 4}).inputs);
  CHECK(Fill(*dataset, {0}).inputs != Fill(*dataset, {0}, Split::kValidation).inputs);
  const auto first = dataset->fingerprint();
  config.job.seed = 2;
  CHECK(Open(config, "/")->fingerprint() != first);
  CHECK(Fill(*Open(config, "/"), {3}).inputs != Fill(*dataset, {3}).inputs);

  // Predicts a sample's class by the nearest mean of the training samples of a class. The prediction must be right for
  // most held-out samples.
  std::vector<std::uint64_t> all(750);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const BatchBuffer training = Fill(*dataset, all);
  std::vector<double> means(10 * 32), counts(10);
  for (std::size_t i = 0; i < 750; ++i) {
    ++counts[training.targets[i]];
    for (std::size_t j = 0; j < 32; ++j) means[training.targets[i] * 32 + j] += training.inputs[i * 32 + j];
  }
  const BatchBuffer held_out =
      Fill(*dataset, std::vector<std::uint64_t>(all.begin(), all.begin() + 250), Split::kValidation);
  int right = 0;
  for (std::size_t i = 0; i < 250; ++i) {
    std::map<double, std::int32_t> by_distance;
    for (std::size_t c = 0; c < 10; ++c) {
      REQUIRE(counts[c] > 0);
      double distance = 0;
      for (std::size_t j = 0; j < 32; ++j) {
        distance += std::pow(held_out.inputs[i * 32 + j] - means[c * 32 + j] / counts[c], 2);
      }
      by_distance[distance] = static_cast<std::int32_t>(c);
    }
    if (by_distance.begin()->second == held_out.targets[i]) ++right;
  }
  CHECK(right > 225);
}

TEST_CASE("a synthetic token has few successors", "[synthetic]") {
  EditableJobConfig config;
  config.model.kind = ModelKind::kGpt;
  config.model.context = 50;
  config.data.samples = 100;
  config.data.vocabulary = 16;
  const auto dataset = Open(config, "/");
  CHECK(dataset->spec().form == SampleForm::kTokens);
  std::map<std::int32_t, std::set<std::int32_t>> successors;
  for (std::uint64_t sample = 0; sample < 90; ++sample) {
    const BatchBuffer batch = Fill(*dataset, {sample});
    for (std::size_t j = 0; j < 50; ++j) {
      REQUIRE(batch.tokens[j] >= 0);
      REQUIRE(batch.tokens[j] < 16);
      if (j > 0) REQUIRE(batch.tokens[j] == batch.targets[j - 1]);
      successors[batch.tokens[j]].insert(batch.targets[j]);
    }
  }
  for (const auto& [token, next] : successors) CHECK(next.size() <= 4);
  CHECK(successors.size() > 4);
}

TEST_CASE("too few synthetic samples to hold any out are refused", "[synthetic]") {
  EditableJobConfig config;
  config.data.samples = 3;
  CHECK_THAT(Message(config, "/"), Contains("[data] samples = 3"));
}

TEST_CASE("the digits of the examples load", "[data]") {
  const auto config = LoadJobConfig(CAPSTAN_SOURCE_DIR "/examples/digits.toml");
  REQUIRE(config.ok());
  const auto dataset = Open(*config, CAPSTAN_SOURCE_DIR);
  CHECK(dataset->spec().features == 64);
  CHECK(dataset->spec().classes == 10);
  CHECK(dataset->count(Split::kTraining) + dataset->count(Split::kValidation) == 1797);
  CHECK(dataset->count(Split::kValidation) > 300);
  std::vector<std::uint64_t> all(dataset->count(Split::kTraining));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const BatchBuffer batch = Fill(*dataset, all);
  CHECK(*std::max_element(batch.inputs.begin(), batch.inputs.end()) == 1.0F);
  CHECK(*std::min_element(batch.inputs.begin(), batch.inputs.end()) == 0.0F);
}

TEST_CASE("the headers of this machine load", "[data]") {
  const std::string path = "/usr/include/c++";
  if (!std::filesystem::exists(path)) return Miss("the headers of this machine", path + " is not there");
  auto config = LoadJobConfig(CAPSTAN_SOURCE_DIR "/examples/gpt-headers.toml");
  REQUIRE(config.ok());
  const auto dataset = Open(*config, "/");
  CHECK(dataset->count(Split::kTraining) > 1000);
  CHECK(dataset->count(Split::kValidation) > 10);
}
