#include "cli/explain/explanations.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "common/base/status.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

std::string SourceText(const std::string& path) {
  std::ifstream in(CAPSTAN_SOURCE_DIR "/" + path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("every code of an error is explained, under the name that messages show", "[cli][explain]") {
  for (int code = 1; std::string(CodeName(static_cast<Code>(code))) != "unknown"; ++code) {
    INFO(code);
    const auto found = FindExplanation(CodeName(static_cast<Code>(code)));
    REQUIRE(found);
    CHECK(found->id == CodeName(static_cast<Code>(code)));
  }
}

TEST_CASE("every code of the C library and every exception of the Python package is explained", "[cli][explain]") {
  const auto check_all = [](const std::string& text, const char* pattern, const std::string& prefix) {
    const std::regex names(pattern);
    int count = 0;
    for (std::sregex_iterator name(text.begin(), text.end(), names), end; name != end; ++name, ++count) {
      INFO(prefix + name->str(1));
      CHECK(FindExplanation(prefix + name->str(1)));
    }
    CHECK(count >= 8);
  };
  const std::string header = SourceText("worker/client/include/capstan/capstan.h");
  check_all(header.substr(0, header.find("} capstan_code;")), R"(\n  (CAPSTAN_[A-Z]+) = [1-9],? )", "");
  check_all(SourceText("worker/python/capstan/errors.py"), R"(\nclass (\w+)\((?:Error|Stale))", "capstan.");
  check_all(SourceText("worker/python/capstan/errors.py"), R"(\nclass (\w+)\((?:Error|Stale))", "capstan.errors.");
  check_all(SourceText("common/include/capstan/status.h"), R"(\n  (k[A-Z]\w+) = [1-9])", "capstan::Code::");
}

TEST_CASE("a message, a name in any spelling and an exit code lead to their explanation", "[cli][explain]") {
  for (const char* text : {"stale", "STALE", "kStale", "Code::kStale", "CAPSTAN_STALE", "capstan.Stale",
                           "stale: the round is over", "capstan.errors.Stale: the round is over"}) {
    INFO(text);
    const auto found = FindExplanation(text);
    REQUIRE(found);
    CHECK(found->id == "stale");
  }
  CHECK(FindExplanation("2")->id == "exit-2");
  CHECK(FindExplanation("137")->meaning == "Ended by signal 9, SIGKILL.");
  CHECK(FindExplanation("exit-139")->id == "exit-139");
  for (const char* text : {"", "sta", "3", "128", "300", "-1", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(FindExplanation(text));
  }
}

TEST_CASE("each explanation is whole, and found by its id", "[cli][explain]") {
  std::set<std::string> ids;
  for (const Explanation& explanation : AllExplanations()) {
    INFO(explanation.id);
    CHECK(ids.insert(explanation.id).second);
    CHECK(FindExplanation(explanation.id)->meaning == explanation.meaning);
    for (const std::string& text : {explanation.meaning, explanation.causes, explanation.advice}) {
      CHECK(text.size() > 4);
      CHECK(text.back() == '.');
    }
  }
}

}  // namespace
}  // namespace capstan::cli
