#include "common/wire/notice_limit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace capstan {
namespace {

constexpr Instant kSecond = std::chrono::seconds(1);

struct Harness {
  // Logs a line, as a core does. Each of the two methods is a kind.
  void Refuse(const std::string& who) { out.Log(Severity::kWarning, "refused: " + who), Take(); }
  void Welcome(const std::string& who) { out.Log(Severity::kInfo, who + " joined"), Take(); }
  void Take() {
    for (const Notice& notice : out.notices) limit.Take(notice, now);
    out.Clear();
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    for (const Notice& notice : std::exchange(lines, {})) texts.push_back(notice.text);
    return texts;
  }

  Outbox out;
  std::vector<Notice> lines;
  Instant now = std::chrono::hours(5);
  NoticeLimit limit{[this](const Notice& notice) { lines.push_back(notice); }};
};

TEST_CASE("a few lines of a kind are handed on at once", "[common][log]") {
  Harness harness;
  for (int i = 0; i < NoticeLimit::kBurst; ++i) harness.Refuse(std::to_string(i));
  const std::vector<std::string> texts = harness.Texts();
  REQUIRE(texts.size() == NoticeLimit::kBurst);
  CHECK(texts.front() == "refused: 0");
  harness.limit.Flush();
  CHECK(harness.lines.empty());
}

TEST_CASE("what comes at once beyond that is the newest line, a second later, with a count", "[common][log]") {
  Harness harness;
  for (int i = 0; i < NoticeLimit::kBurst + 1205; ++i) harness.Refuse(std::to_string(i));
  CHECK(harness.Texts().size() == NoticeLimit::kBurst);
  harness.now += kSecond / 2;
  harness.limit.Look(harness.now);
  CHECK(harness.lines.empty());
  harness.now += kSecond / 2;
  harness.limit.Look(harness.now);
  CHECK(harness.Texts() == std::vector<std::string>{"refused: 1212 (and 1,204 more like it in the last second)"});
  harness.limit.Look(harness.now + kSecond);
  CHECK(harness.lines.empty());
}

TEST_CASE("a flood is one line a second, and another kind is not held back by it", "[common][log]") {
  Harness harness;
  for (int i = 0; i < NoticeLimit::kBurst + 1; ++i) harness.Refuse("early");
  (void)harness.Texts();
  constexpr int kSeconds = 20;
  for (int i = 0; i < 100 * kSeconds; ++i) {
    harness.now += kSecond / 100;
    for (int line = 0; line < 10; ++line) harness.Refuse("flood");
    harness.limit.Look(harness.now);
    if (i % 1000 == 0) harness.Welcome("honest");
  }
  const std::vector<std::string> texts = harness.Texts();
  CHECK(std::count(texts.begin(), texts.end(), "honest joined") == 2);
  CHECK(texts.size() == kSeconds + 2);
}

TEST_CASE("after a quiet second lines are handed on at once again", "[common][log]") {
  Harness harness;
  for (int i = 0; i < NoticeLimit::kBurst + 1; ++i) harness.Refuse("flood");
  harness.now += kSecond;
  harness.limit.Look(harness.now);
  (void)harness.Texts();
  harness.now += kSecond;
  harness.Refuse("honest");
  CHECK(harness.Texts() == std::vector<std::string>{"refused: honest"});
}

TEST_CASE("at the end every line that is held back is handed on, with its severity", "[common][log]") {
  Harness harness;
  for (int i = 0; i < NoticeLimit::kBurst + 1; ++i) harness.Refuse(std::to_string(i));
  (void)harness.Texts();
  harness.limit.Flush();
  REQUIRE(harness.lines.size() == 1);
  CHECK(harness.lines[0].text == "refused: " + std::to_string(NoticeLimit::kBurst));
  CHECK(harness.lines[0].severity == Severity::kWarning);
  harness.limit.Flush();
  CHECK(harness.lines.size() == 1);
}

}  // namespace
}  // namespace capstan
