#include "common/wire/line_pace.h"

#include <deque>

#include "tests/catch.h"

namespace capstan {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kBlock = 1u << 20;

// A simulated line that carries `rate` bytes per second and answers `delay` later. Its queue is always as full as the
// pace allows.
struct Line {
  explicit Line(std::uint64_t rate, Instant delay = milliseconds(1)) : rate_(rate), delay_(delay) {}

  void Transfer(LinePace* pace, int blocks) {
    for (; blocks > 0; --blocks) {
      while (pace->HasRoom(kBlock)) {
        free_ = std::max(free_, now) + Instant(static_cast<std::int64_t>(1e9 * kBlock / static_cast<double>(rate_)));
        under_way.emplace_back(pace->Send(++sent, kBlock, now), free_ + delay_);
      }
      most = std::max(most, under_way.size());
      now = std::max(now, under_way.front().second);
      overdue += pace->Due(now) ? 1 : 0;
      pace->Answered(under_way.front().first, now);
      under_way.pop_front();
    }
  }

  std::deque<std::pair<LinePace::Sent, Instant>> under_way;
  Instant now = seconds(10);
  std::uint64_t sent = 0;
  std::size_t most = 0;
  int overdue = 0;

 private:
  const std::uint64_t rate_;
  const Instant delay_;
  Instant free_{};
};

TEST_CASE("a line has a block or two in its queue, however slow it is", "[common][line]") {
  for (std::uint64_t rate : {40'000, 250'000, 1'000'000}) {
    LinePace pace;
    Line line(rate);
    line.Transfer(&pace, 50);
    INFO(rate << " bytes a second");
    CHECK(line.most == 2);
  }
}

TEST_CASE("a line of 10 MiB a second has less than a second of it in its queue", "[common][line]") {
  LinePace pace;
  Line line(10 * kBlock);
  line.Transfer(&pace, 50);
  line.most = 0;
  line.Transfer(&pace, 50);
  CHECK(line.most >= 4);
  CHECK(line.most <= 8);
}

TEST_CASE("a fast or a long line is filled after some answers", "[common][line]") {
  LinePace fast, far;
  Line at_hand(1000 * kBlock), satellite(50 * kBlock, milliseconds(600));
  at_hand.Transfer(&fast, 20);
  CHECK(fast.window() >= 16 * kBlock);
  satellite.Transfer(&far, 200);
  CHECK(far.window() >= 30 * kBlock);
}

TEST_CASE("an answer that comes at the line's own pace is not overdue", "[common][line]") {
  for (std::uint64_t rate : {40'000, 250'000, 1'000'000, 100'000'000}) {
    LinePace pace(1, {seconds(60), seconds(600)});
    Line line(rate);
    line.Transfer(&pace, 50);
    INFO(rate << " bytes a second");
    CHECK(line.overdue == 0);
    const Instant last = line.now;
    CHECK(pace.usual() >= Instant(static_cast<std::int64_t>(0.9e9 * kBlock / static_cast<double>(rate))));
    CHECK(pace.Due(last + 2 * pace.wait()));
  }
}

TEST_CASE("waits between questions double up to the longest, until there is news", "[common][line]") {
  LinePace pace(3, {milliseconds(250), seconds(2)});
  Instant now = seconds(5), wait = milliseconds(250);
  CHECK(!pace.Due(now));  // no answer is awaited
  pace.Await(now);
  for (int i = 0; i < 8; ++i) {
    INFO("question " << i);
    CHECK(!pace.Due(now + wait - Instant(1)));
    CHECK(pace.Due(now + wait + wait / 4));
    now += wait + wait / 4;
    pace.Asked(now);
    wait = std::min<Instant>(2 * wait, seconds(2));
  }
  pace.News(now);
  CHECK(!pace.Due(now + milliseconds(249)));
  CHECK(pace.Due(now + milliseconds(313)));
  pace.Rest();
  CHECK(!pace.Due(now + seconds(99)));
}

TEST_CASE("what is dropped makes room and is not measured", "[common][line]") {
  LinePace pace;
  const LinePace::Sent first = pace.Send(1, kBlock, seconds(1)), second = pace.Send(2, kBlock, seconds(1));
  CHECK(!pace.HasRoom(1));
  pace.Dropped(first);
  CHECK(pace.HasRoom(kBlock));
  CHECK(pace.wait() == LinePace::kFirstWait);
  pace.Dropped(second);
  CHECK(pace.HasRoom(100 * kBlock));  // alone, whatever its size
  CHECK(pace.count() == 0);
}

TEST_CASE("after a pause of the other side the window comes back", "[common][line]") {
  LinePace pace;
  Line line(1000 * kBlock);
  line.Transfer(&pace, 40);
  line.now += seconds(30);
  line.Transfer(&pace, 1);
  CHECK(pace.window() < 16 * kBlock);
  line.Transfer(&pace, 200);
  CHECK(pace.window() >= 16 * kBlock);
}

TEST_CASE("many small messages are bounded by their number", "[common][line]") {
  LinePace pace;
  std::uint64_t sent = 0;
  while (pace.HasRoom(0)) (void)pace.Send(++sent, 0, {});
  CHECK(sent == LinePace::kCountMax);
}

}  // namespace
}  // namespace capstan
