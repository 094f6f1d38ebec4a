#include "worker/data/token_dataset.h"

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/config/job/data_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

namespace {

using testing::TempFolder;
using Ids = std::vector<std::uint32_t>;

std::string Bytes(const Ids& ids, unsigned each) {
  std::string bytes;
  for (const std::uint32_t id : ids) {
    for (unsigned i = 0; i < each; ++i) bytes += static_cast<char>(id >> (8 * i));
  }
  return bytes;
}

// Returns pseudo-random numbers below `vocabulary`.
Ids SomeIds(std::size_t count, std::uint32_t vocabulary) {
  Ids ids(count);
  std::uint32_t state = 1;
  for (std::uint32_t& id : ids) id = ((state = state * 1664525 + 1013904223) >> 8) % vocabulary;
  return ids;
}

EditableJobConfig TokenJob(const std::string& path, TokenType type, std::uint32_t vocabulary, std::uint32_t context) {
  EditableJobConfig config;
  config.model.kind = ModelKind::kGpt;
  config.model.context = context;
  config.data.kind = DataKind::kTokens;
  config.data.path = path;
  config.data.type = type;
  config.data.vocabulary = vocabulary;
  config.data.validation = 0;
  return config;
}

std::unique_ptr<Dataset> Open(const JobConfig& config, const TempFolder& folder) {
  auto dataset = OpenDataset(config, folder.path());
  INFO(dataset.status().message());
  REQUIRE(dataset.ok());
  return std::move(dataset).value();
}

Status Refusal(const JobConfig& config, const TempFolder& folder) {
  const auto dataset = OpenDataset(config, folder.path());
  REQUIRE_FALSE(dataset.ok());
  return dataset.status();
}

// Checks that every training sample is the right window of `ids`.
void CheckWindows(const Dataset& dataset, const Ids& ids, std::uint32_t context) {
  REQUIRE(dataset.count(Split::kTraining) == (ids.size() - 1) / context);
  BatchBuffer batch;
  for (std::uint64_t sample = 0; sample < dataset.count(Split::kTraining); ++sample) {
    batch.tokens.assign(3 * context, -1);
    batch.targets.assign(3 * context, -1);
    const std::uint64_t samples[] = {0, sample};
    REQUIRE(dataset.Fill(samples, Split::kTraining, {}, &batch).ok());
    REQUIRE(batch.tokens.size() == 2 * context);
    REQUIRE(batch.targets.size() == 2 * context);
    REQUIRE(batch.inputs.empty());
    for (std::uint32_t j = 0; j < context; ++j) {
      REQUIRE(batch.tokens[j] == static_cast<std::int32_t>(ids[j]));
      REQUIRE(batch.tokens[context + j] == static_cast<std::int32_t>(ids[sample * context + j]));
      REQUIRE(batch.targets[context + j] == static_cast<std::int32_t>(ids[sample * context + j + 1]));
    }
  }
}

}  // namespace

TEST_CASE("a sample of tokens is its window, and the targets are the tokens behind each", "[tokens]") {
  const TempFolder folder;
  const std::uint32_t context = GENERATE(1U, 15U, 17U, 31U, 33U, 257U);
  const Ids small = SomeIds(1000, 65536), large = SomeIds(1000, 1 << 20);
  folder.Write("small", Bytes(small, 2));
  folder.Write("large", Bytes(large, 4));
  const auto dataset = Open(TokenJob("small", TokenType::kUint16, 65536, context), folder);
  CHECK(dataset->spec() == SampleSpec{.form = SampleForm::kTokens, .vocabulary = 65536, .context = context});
  CheckWindows(*dataset, small, context);
  CheckWindows(*Open(TokenJob("large", TokenType::kUint32, 1 << 20, context), folder), large, context);
}

TEST_CASE("a folder of tokens is its files in the order of their paths, and a window may lie in several", "[tokens]") {
  const TempFolder folder;
  const Ids ids = SomeIds(400, 500);
  const auto piece = [&](std::size_t first, std::size_t last) {
    return Bytes(Ids(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.begin() + static_cast<std::ptrdiff_t>(last)),
                 2);
  };
  folder.Write("t/a.bin", piece(0, 100));
  folder.Write("t/b.bin", "");
  folder.Write("t/c.bin", piece(100, 103));
  folder.Write("t/d/e.bin", piece(103, 400));
  folder.Write("t/z.txt", "odd");
  EditableJobConfig config = TokenJob("t", TokenType::kUint16, 500, 33);
  config.data.include = {"*.bin"};
  CheckWindows(*Open(config, folder), ids, 33);
  config.data.max_bytes = 2 * 350 + 1;
  CheckWindows(*Open(config, folder), Ids(ids.begin(), ids.begin() + 350), 33);
  config.data.include = {"e.bin"};
  config.data.max_bytes = 0;
  CheckWindows(*Open(config, folder), Ids(ids.begin() + 103, ids.end()), 33);
}

TEST_CASE("tokens are held out as samples of text are", "[tokens]") {
  const TempFolder folder;
  folder.Write("t", Bytes(SomeIds(20001, 100), 2));
  EditableJobConfig config = TokenJob("t", TokenType::kUint16, 100, 10);
  config.data.validation = 0.25;
  const auto tokens = Open(config, folder);
  config.data.kind = DataKind::kText;
  config.data.max_bytes = 20001;
  const auto text = Open(config, folder);
  CHECK(tokens->count(Split::kTraining) == text->count(Split::kTraining));
  CHECK(tokens->count(Split::kValidation) == text->count(Split::kValidation));
  CHECK(tokens->count(Split::kValidation) > 400);
}

TEST_CASE("the fingerprint of tokens is of names and contents, not of the place", "[tokens]") {
  const TempFolder folder;
  const std::string bytes = Bytes(SomeIds(1 << 20, 500), 2);
  std::string other = bytes;
  other.back() ^= 1;
  folder.Write("x/a", bytes);
  folder.Write("y/a", bytes);
  folder.Write("z/b", bytes);
  folder.Write("w/a", other);
  const auto fingerprint = [&](const char* name) {
    return Open(TokenJob(name, TokenType::kUint16, 1000, 31), folder)->fingerprint();
  };
  CHECK(fingerprint("x") == fingerprint("y"));
  CHECK(fingerprint("x") != fingerprint("z"));
  CHECK(fingerprint("x") != fingerprint("w"));
}

TEST_CASE("a token that the vocabulary does not have is named by file, position and value", "[tokens]") {
  const TempFolder folder;
  const std::size_t at = GENERATE(0U, 17U, 600'000U, 1'200'000U);  // in several of the pieces in which it is read
  Ids ids = SomeIds(1'200'001, 500);
  ids[at] = 500;
  folder.Write("t/a", Bytes(SomeIds(10, 500), 2));
  folder.Write("t/b", Bytes(ids, 2));
  folder.Write("u/b", Bytes(ids, 4));
  const std::string wanted = "b: token " + std::to_string(at) + " is 500, and [data] vocabulary = 500";
  CHECK_THAT(Refusal(TokenJob("t", TokenType::kUint16, 500, 8), folder).message(), Contains("t/" + wanted));
  CHECK_THAT(Refusal(TokenJob("u", TokenType::kUint32, 500, 8), folder).message(), Contains("u/" + wanted));
  Open(TokenJob("t", TokenType::kUint16, 501, 8), folder);
}

TEST_CASE("the largest id of each type is known or unknown, by the vocabulary", "[tokens]") {
  const TempFolder folder;
  folder.Write("small", Bytes({1, 65535, 2}, 2));
  folder.Write("large", Bytes({1, 0xFFFFFFFF, 2}, 4));
  Open(TokenJob("small", TokenType::kUint16, 65536, 2), folder);
  CHECK_THAT(Refusal(TokenJob("small", TokenType::kUint16, 65535, 2), folder).message(), Contains("token 1 is 65535"));
  CHECK_THAT(Refusal(TokenJob("large", TokenType::kUint32, 1 << 20, 2), folder).message(),
             Contains("token 1 is 4294967295"));
}

TEST_CASE("tokens that are cut short, missing or too few are refused with what to do", "[tokens]") {
  const TempFolder folder;
  folder.Write("odd", "abc");
  folder.Write("empty", "");
  folder.Write("few", Bytes({1, 2, 3}, 2));
  std::filesystem::create_directories(folder.path("none"));
  const Status odd = Refusal(TokenJob("odd", TokenType::kUint16, 65536, 1), folder);
  CHECK(odd.code() == Code::kCorrupt);
  CHECK_THAT(odd.message(), Contains("odd: 3 bytes, no whole number of uint16 tokens"));
  CHECK_THAT(Refusal(TokenJob("few", TokenType::kUint32, 65536, 1), folder).message(),
             Contains("few: 6 bytes, no whole number of uint32 tokens"));
  CHECK_THAT(Refusal(TokenJob("few", TokenType::kUint16, 65536, 3), folder).message(),
             Contains("few: 3 tokens, and one sample takes 4 ([model] context + 1)"));
  CHECK_THAT(Refusal(TokenJob("empty", TokenType::kUint16, 65536, 1), folder).message(), Contains("0 tokens"));
  CHECK_THAT(Refusal(TokenJob("nothing", TokenType::kUint16, 65536, 1), folder).message(),
             Contains("nothing: cannot read the data: No such file"));
  CHECK_THAT(Refusal(TokenJob("none", TokenType::kUint16, 65536, 1), folder).message(), Contains("no files"));
  CHECK_THAT(Refusal(TokenJob("../few", TokenType::kUint16, 65536, 1), folder).message(), Contains("leads out of"));
}

TEST_CASE("more files of tokens than a process may hold open are refused with the way out", "[tokens]") {
  const TempFolder folder;
  for (int i = 0; i < 100; ++i) folder.Write("t/" + std::to_string(i), Bytes({1, 2, 3}, 2));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{60, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const Status status = Refusal(TokenJob("t", TokenType::kUint16, 50, 1), folder);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_THAT(status.message(), Contains("no descriptor left") && Contains("ulimit -n"));
}

TEST_CASE("a file of tokens that is written to while it is read is an error that names it", "[tokens]") {
  const TempFolder folder;
  const Ids ids = SomeIds(8000, 50);
  const std::string one = folder.Write("t/one.bin", Bytes(ids, 2));
  folder.Write("t/two.bin", Bytes(ids, 2));
  const JobConfig config = TokenJob("t", TokenType::kUint16, 50, 16);
  const auto dataset = Open(config, folder);
  const std::uint64_t first[] = {0}, last[] = {900};  // one from each file
  BatchBuffer batch;
  REQUIRE(dataset->Fill(first, Split::kTraining, {}, &batch).ok());

  SECTION("cut short, before the part that is wanted") {
    std::filesystem::resize_file(one, 20);
    const Status status = dataset->Fill(first, Split::kTraining, {}, &batch);
    CHECK(status.code() == Code::kCorrupt);
    CHECK_THAT(status.message(), Contains("t/one.bin: had 16000 bytes when this worker opened it, and has 20;"));
    CHECK(dataset->Fill(last, Split::kTraining, {}, &batch).ok());  // the other file is unchanged
  }
  SECTION("written over in the same size") {
    const auto before = std::filesystem::last_write_time(one);
    folder.Write("t/one.bin", Bytes(SomeIds(8000, 40), 2));
    std::filesystem::last_write_time(one, before + std::chrono::seconds(1));
    const Status status = dataset->Fill(first, Split::kTraining, {}, &batch);
    CHECK(status.code() == Code::kCorrupt);
    CHECK_THAT(status.message(),
               Contains("t/one.bin: its time changed since this worker opened it") && Contains("under another path"));
  }
  SECTION("written over unnoticed, with an id that no model knows") {
    const auto before = std::filesystem::last_write_time(one);
    {
      std::fstream file(one, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(7 * 2);
      file.write("\x33\x00", 2);
    }
    std::filesystem::last_write_time(one, before);
    const Status status = dataset->Fill(first, Split::kTraining, {}, &batch);
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains("t/one.bin: token 7 is 51, and [data] vocabulary = 50"));
  }
  SECTION("written to after another took its name") {
    std::filesystem::create_hard_link(one, folder.path("kept.bin"));
    folder.Write("new.bin", Bytes(ids, 2));
    std::filesystem::rename(folder.path("new.bin"), one);
    std::filesystem::resize_file(folder.path("kept.bin"), 20);
    CHECK(dataset->Fill(first, Split::kTraining, {}, &batch).code() == Code::kCorrupt);
  }
  SECTION("another file in its place, or none: the one that was opened is still read") {
    folder.Write("new.bin", Bytes(SomeIds(10, 40), 2));
    std::filesystem::rename(folder.path("new.bin"), one);
    CHECK(dataset->Fill(first, Split::kTraining, {}, &batch).ok());
    std::filesystem::remove(one);
    CHECK(dataset->Fill(first, Split::kTraining, {}, &batch).ok());
    CHECK(batch.tokens[3] == static_cast<std::int32_t>(ids[3]));
  }
}
