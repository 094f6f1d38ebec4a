#include "worker/data/csv.h"

#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

namespace {

using testing::TempFolder;

Result<FeatureTable<float>> Read(const std::string& text, const CsvOptions& options = {}) {
  const TempFolder folder;
  return ReadCsv(folder.Write("t.csv", text), options);
}

std::string CsvMessage(const std::string& text, const CsvOptions& options = {}) {
  const auto table = Read(text, options);
  REQUIRE_FALSE(table.ok());
  return table.status().message();
}

}  // namespace

TEST_CASE("the last column is the class unless another is named", "[csv]") {
  const auto last = Read("1,2,0\n3,4,2\n");
  REQUIRE(last.ok());
  CHECK(last->features == 2);
  CHECK(last->classes == 3);
  CHECK(last->inputs == std::vector<float>{1, 2, 3, 4});
  CHECK(last->labels == std::vector<std::int32_t>{0, 2});
  const auto first = Read("1,2,0\n0,4,2\n", {.label_column = 0});
  REQUIRE(first.ok());
  CHECK(first->labels == std::vector<std::int32_t>{1, 0});
  CHECK(first->inputs == std::vector<float>{2, 0, 4, 2});
  CHECK(Read("1,2,0\n0,4,2\n", {.label_column = -3})->labels == first->labels);
}

TEST_CASE("a byte order mark at the beginning is read over, and only there", "[csv]") {
  const auto marked = Read(
      "\xEF\xBB\xBF"
      "1,2,0\n3,4,1\n");
  REQUIRE(marked.ok());
  CHECK(marked->inputs == std::vector<float>{1, 2, 3, 4});
  CHECK_THAT(CsvMessage("1,2,0\n\xEF\xBB\xBF"
                        "3,4,1\n"),
             Contains("t.csv:2:"));
}

TEST_CASE("headers, blanks, line ends and signs are read over", "[csv]") {
  const auto table = Read("a,b\r\n +1.5 ,\t1\r\n\r\n-2e-1,0", {.header_lines = 1});
  REQUIRE(table.ok());
  CHECK(table->inputs == std::vector<float>{1.5F, -0.2F});
  CHECK(table->labels == std::vector<std::int32_t>{1, 0});
}

TEST_CASE("a file that is no text is refused as that, and shows none of its bytes", "[csv]") {
  const std::string program =
      CsvMessage(std::string("\x7F"
                             "ELF\x02\x01\x01\0\x1B[31m",
                             13));
  CHECK_THAT(program, Contains("t.csv: is not text: its byte 0 is \\x7F; [data] kind = \"csv\" reads"));
  CHECK_THAT(CsvMessage(std::string("1\0,\0"
                                    "2\0\n\0",
                                    8)),
             Contains("is not text: its byte 1 is \\x00"));
  CHECK_THAT(CsvMessage(std::string(5000, ' ') + "1,\x1B[31m\n"), Contains("column 1 is \"\\x1B[31m\", not a number"));
  CHECK(Read("1\t,2,0\r\n1,2,0\r\n").ok());
}

TEST_CASE("a ragged row is refused with its line", "[csv]") {
  CHECK_THAT(CsvMessage("1,2,0\n3,4,1\n5,6\n"), Contains("t.csv:3: 2 values, and line 1 has 3"));
  CHECK_THAT(CsvMessage("1,2,0\n3,4,1,9\n"), Contains("t.csv:2: 4 values"));
}

TEST_CASE("what is not a finite number is refused with its line and column", "[csv]") {
  CHECK_THAT(CsvMessage("1,2,0\n3,x,1\n"), Contains("t.csv:2: column 1 is \"x\", not a number"));
  CHECK_THAT(CsvMessage("1,2,0\n3,,1\n"), Contains("t.csv:2: column 1 is \"\", not a number"));
  CHECK_THAT(CsvMessage("1,2,0\n3,4z,1\n"), Contains("\"4z\", not a number"));
  CHECK_THAT(CsvMessage("1,2,0\n3,+-4,1\n"), Contains("\"+-4\""));
  CHECK_THAT(CsvMessage("x,y,z\n1,2,0\n"), Contains("set [data] header_lines"));
  CHECK_THAT(CsvMessage("1,2,0\nnan,4,1\n"), Contains("t.csv:2: column 0 is \"nan\"; a value must be finite"));
  CHECK_THAT(CsvMessage("1,2,0\n3,-inf,1\n"), Contains("t.csv:2: column 1 is \"-inf\"; a value must be finite"));
  CHECK_THAT(CsvMessage("1,2,0\n3,1e39,1\n"), Contains("\"1e39\"; a value must be finite in 32 bits"));
  CHECK_THAT(CsvMessage("1,2,0\n3,1e39000,1\n"), Contains("t.csv:2: column 1"));
  CHECK_THAT(CsvMessage("1e30,2,0\n", {.scale = 1e-30F}), Contains("a value must be finite"));
}

TEST_CASE("a label that is no class is refused", "[csv]") {
  for (const char* label : {"-1", "0.5", "nan", "1e300", "1048576"}) {
    CHECK_THAT(CsvMessage("1,2,0\n3,4," + std::string(label) + "\n"), Contains("t.csv:2: "));
  }
  CHECK_THAT(CsvMessage("1,2,0.5\n"), Contains("classes are whole numbers from 0. Is [data] label_column right?"));
  CHECK_THAT(CsvMessage("1,2,0\n", {.label_column = 3}), Contains("label_column = 3, and the table has 3 columns"));
  CHECK_THAT(CsvMessage("1,2,0\n", {.label_column = -4}), Contains("label_column = -4"));
}

TEST_CASE("a table without rows or without commas is refused", "[csv]") {
  CHECK_THAT(CsvMessage(""), Contains("no rows in it"));
  CHECK_THAT(CsvMessage("a,b\n", {.header_lines = 1}), Contains("no rows in it"));
  CHECK_THAT(CsvMessage("1;2;3\n"), Contains("1 column separated by commas"));
}
