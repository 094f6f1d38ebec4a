#include "common/data/safetensors.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/random.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::TempFolder;

std::vector<TensorSpec> Tensors() { return {{"b", {2, 3}, {}}, {"a \"quoted\"\\\n", {4}, {}}}; }

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<SafetensorsFile> Parse(std::string_view header, std::uint64_t bytes) {
  return ParseSafetensorsHeader(header, bytes);
}

TEST_CASE("what is written block by block, in any order, is read back in catalog order", "[safetensors]") {
  const TempFolder folder;
  const std::string path = folder.path("w.safetensors");
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, Tensors());
    REQUIRE(writer.ok());
    REQUIRE(writer->Write(7, std::as_bytes(std::span(values).subspan(7))).ok());
    REQUIRE(writer->Write(0, std::as_bytes(std::span(values).first(7))).ok());
    CHECK_FALSE(std::filesystem::exists(path));
    REQUIRE(writer->Commit().ok());
  }
  const Result<SafetensorsFile> file = ReadSafetensors(path);
  REQUIRE(file.ok());
  REQUIRE(file->tensors.size() == 2);
  CHECK(file->tensors[0].name == "b");
  CHECK(file->tensors[0].dtype == "F32");
  CHECK(file->tensors[0].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(file->tensors[1].name == "a \"quoted\"\\\n");
  CHECK(file->tensors[1].begin == 24);
  REQUIRE(file->data.size() == values.size() * sizeof(float));
  CHECK(std::memcmp(file->data.data(), values.data(), file->data.size()) == 0);
}

TEST_CASE("what a file says of itself is read back, and changes no tensor", "[safetensors]") {
  const TempFolder folder;
  const std::string path = folder.path("w.safetensors");
  const SafetensorsMetadata metadata = {{"step", "7"}, {"a \"quoted\"\n", "\\"}};
  {
    Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, Tensors(), metadata);
    REQUIRE(writer.ok());
    const std::vector<float> values(10, 1.5F);
    REQUIRE(writer->Write(0, std::as_bytes(std::span(values))).ok());
    REQUIRE(writer->Commit().ok());
  }
  const Result<SafetensorsFile> file = ReadSafetensors(path);
  REQUIRE(file.ok());
  SafetensorsMetadata wanted = metadata;
  wanted["format"] = "pt";
  CHECK(file->metadata == wanted);
  CHECK(file->tensors.size() == 2);
  CHECK(file->data.size() == 40);
}

TEST_CASE("the data begins at a multiple of eight bytes", "[safetensors]") {
  for (std::int64_t extent : {1, 10, 100, 1000}) {
    CHECK(SafetensorsHeader({{"w", {extent}, {}}}).size() % 8 == 0);
  }
}

TEST_CASE("a file that was not finished is not there", "[safetensors]") {
  const TempFolder folder;
  { REQUIRE(SafetensorsWriter::Create(folder.path("w"), Tensors()).ok()); }
  CHECK(std::filesystem::is_empty(std::filesystem::path(folder.path("w")).parent_path()));
}

TEST_CASE("headers by other writers are read: any order, spaces, escapes, metadata", "[safetensors]") {
  const auto file = Parse(R"({ "z\u00e9\ud83d\ude00" : {"shape":[2], "dtype":"BF16", "data_offsets":[4,8]},
    "__metadata__":{"format":"pt","k":""}, "s":{"dtype":"I32","shape":[],"data_offsets":[0,4]} }   )",
                          8);
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->tensors[0].name == "s");
  CHECK(file->tensors[1].name == "z\u00e9\U0001F600");
  CHECK(file->metadata.at("format") == "pt");
  CHECK(Parse("{}", 0).ok());
}

TEST_CASE("a header that breaks a rule of the format is refused", "[safetensors]") {
  const auto refused = [](std::string_view header, std::uint64_t bytes) {
    const Result<SafetensorsFile> file = Parse(header, bytes);
    return !file.ok() && file.status().code() == Code::kCorrupt;
  };
  CHECK(refused("", 0));
  CHECK(refused(" {}", 0));
  CHECK(refused("{} x", 0));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)", 4));
  CHECK(refused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      8));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8));        // a hole
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8));        // bytes left over
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4));        // another size
  CHECK(refused(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4));        // unknown type
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4));  // unknown key
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1]}})", 4));                             // a missing one
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}})", 4));       // not JSON
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"__metadata__":{"k":1}})", 0));
  CHECK(refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0));  // one name twice
  CHECK(refused(R"({"__metadata__":{},"__metadata__":{}})", 0));
  CHECK(refused(R"({"__metadata__":[]})", 0));
  CHECK(refused(R"({"a":null})", 0));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4));
  CHECK(refused(R"({"a":{"dtype":{"x":"F32"},"shape":[1],"data_offsets":[0,4]}})", 4));
  CHECK(refused("{} // a comment", 0));
  CHECK(refused(std::string_view("{}\0", 3), 0));
  CHECK(refused("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4));
}

TEST_CASE("a header nested a million deep is refused at the first level too many", "[safetensors]") {
  for (const std::string_view deeper : {"{\"a\":", "["}) {
    std::string header = "{\"a\":{\"shape\":";
    for (int i = 0; i < 1'000'000; ++i) header += deeper;
    CHECK(Parse(header, 0).status().message().starts_with("tensor \"a\" must have"));
  }
}

TEST_CASE("a damaged file never gives tensors beyond its bytes", "[safetensors]") {
  const std::string whole = SafetensorsHeader(Tensors()).substr(8);
  RandomStream random(11, 1);
  for (int i = 0; i < 20000; ++i) {
    std::string header = whole;
    for (std::uint64_t flips = 1 + random.Below(3); flips > 0; --flips) {
      header[random.Below(header.size())] = static_cast<char>(random.Below(256));
    }
    const Result<SafetensorsFile> file = Parse(header, 40);
    if (!file.ok()) continue;
    for (const SafetensorsEntry& tensor : file->tensors) CHECK(tensor.end <= 40);
  }
}

TEST_CASE("a file that is cut, or names a header longer than itself, is refused with its name", "[safetensors]") {
  const TempFolder folder;
  const std::string path = folder.path("w");
  Result<SafetensorsWriter> writer = SafetensorsWriter::Create(path, {{"w", {3}, {}}});
  const std::vector<float> values = {1, 2, 3};
  REQUIRE(writer->Write(0, std::as_bytes(std::span(values))).ok());
  REQUIRE(writer->Commit().ok());
  const std::string whole = Bytes(path);
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{20}, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const Result<SafetensorsFile> file = ReadSafetensors(path);
    REQUIRE_FALSE(file.ok());
    CHECK(file.status().message().find(path) != std::string::npos);
  }
  CHECK(ReadSafetensors(folder.path("nothing")).status().code() == Code::kInvalid);
}

TEST_CASE("a file with holes that is larger than the memory is refused before memory is taken", "[safetensors]") {
  const TempFolder folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}})";
  std::string begin(8, '\0');
  begin[0] = static_cast<char>(header.size());
  const std::string path = folder.Write("w", begin + header);
  std::filesystem::resize_file(path, begin.size() + header.size() + (std::uint64_t{1} << 40));
  const Status status = ReadSafetensors(path, {std::uint64_t{64} << 20, "this machine"}).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message() == path + " has 1048576 MiB, is read into memory, and this machine has 64 MiB left; use a machine "
                                   "with more memory");
  CHECK(ReadSafetensors(path).status().code() == Code::kInvalid);
}

TEST_CASE("what is no file is refused at once", "[safetensors]") {
  const TempFolder folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder.path(), folder.path("pipe")}) {
    CHECK(ReadSafetensors(path).status().message() == "cannot read " + path + ": it is no file");
  }
}

TEST_CASE("a file of another kind is refused as no safetensors file", "[safetensors]") {
  const TempFolder folder;
  for (const std::string& bytes :
       {std::string("\x7F"
                    "ELF\x02\x01\x01\0\0\0\0\0",
                    12),
        std::string(64, 'a'), std::string("abc"), std::string("\x04\0\0\0\0\0\0\0wxyz", 12)}) {
    const Status status = ReadSafetensors(folder.Write("w", bytes)).status();
    CHECK(status.code() == Code::kCorrupt);
    CHECK(status.message().starts_with(folder.path("w") + " is not a safetensors file"));
  }
}

}  // namespace
}  // namespace capstan
