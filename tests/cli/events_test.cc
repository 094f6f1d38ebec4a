#include "cli/run/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

TEST_CASE("events come out of the pipe as they went in", "[cli][events]") {
  std::array<int, 2> fds{};
  REQUIRE(pipe(fds.data()) == 0);
  const EventWriter writer(fds[1]);
  writer.Ready({"a:1", "b:2"}, "c:3");
  writer.Notice(Severity::kWarning, "two\nlines and \"quotes\" \xff");
  writer.Failed("why");
  writer.Heartbeat();
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(read(fds[0], text.data(), text.size())));
  std::vector<Event> events;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    events.push_back(ParseEvent(std::string_view(text).substr(begin, end - begin)));
  }
  REQUIRE(events.size() == 4);
  CHECK(events[0].kind == Event::Kind::kReady);
  CHECK(events[0].addresses == std::vector<std::string>{"a:1", "b:2"});
  CHECK(events[0].metrics == "c:3");
  CHECK(events[1].severity == Severity::kWarning);
  CHECK(events[1].text.starts_with("two\nlines and \"quotes\" "));
  CHECK(events[2].kind == Event::Kind::kFailed);
  CHECK(events[2].text == "why");
  CHECK(events[3].kind == Event::Kind::kBeat);
  close(fds[0]);
  close(fds[1]);
}

TEST_CASE("an event of any size is one line that the system writes in one piece", "[cli][events]") {
  for (const char* piece : {"x", "\x01", "\xff"}) {
    Event event;
    event.kind = Event::Kind::kFailed;
    for (int i = 0; i < 100000; ++i) event.text += piece;
    const std::string line = PrintEvent(event);
    CHECK(line.size() <= PIPE_BUF);
    CHECK(ParseEvent(line).kind == Event::Kind::kFailed);
    CHECK(ParseEvent(line).text.size() > 100);
  }
  Event ready;
  ready.kind = Event::Kind::kReady;
  ready.addresses.assign(4096, "10.0.0.1:29600");
  CHECK(PrintEvent(ready).size() <= PIPE_BUF);
  CHECK(ParseEvent(PrintEvent(ready)).addresses.front() == "10.0.0.1:29600");
}

TEST_CASE("an event that a full pipe does not take leaves the next one whole", "[cli][events]") {
  std::array<int, 2> fds{};
  REQUIRE(pipe2(fds.data(), O_NONBLOCK) == 0);
  const EventWriter writer(fds[1]);
  const std::string long_text(3000, 'x');
  for (int i = 0; i < 100; ++i) writer.Notice(Severity::kInfo, long_text);  // more than a pipe holds
  std::string text;
  std::array<char, 4096> bytes{};
  const auto take_all = [&] {
    for (ssize_t size; (size = read(fds[0], bytes.data(), bytes.size())) > 0;) text.append(bytes.data(), size);
  };
  take_all();
  writer.Failed("why");
  take_all();
  std::size_t notices = 0;
  Event last;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    last = ParseEvent(std::string_view(text).substr(begin, end - begin));
    REQUIRE(last.kind != Event::Kind::kNone);
    if (last.kind == Event::Kind::kNotice) ++notices;
  }
  CHECK(notices > 0);
  CHECK(notices < 100);
  CHECK(last.kind == Event::Kind::kFailed);
  CHECK(last.text == "why");
  close(fds[0]);
  close(fds[1]);
}

TEST_CASE("what is no event is none", "[cli][events]") {
  for (const char* line : {"", "x", "[]", "{}", R"({"event": 3})", R"({"event": "ready", "addresses": [1, {}]})"}) {
    CHECK(ParseEvent(line).addresses.empty());
  }
  CHECK(ParseEvent("garbage").kind == Event::Kind::kNone);
  EventWriter(-1).Failed("nobody hears it");
}

}  // namespace
}  // namespace capstan::cli
