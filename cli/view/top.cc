#include "cli/view/top.h"

#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "cli/run/print_json.h"
#include "cli/run/process.h"
#include "cli/terminal/live_terminal.h"
#include "cli/view/job_view.h"
#include "cli/view/render.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

using nlohmann::ordered_json;
using Clock = JobView::Clock;

constexpr int kSizeLookMs = 200;  // so often the terminal's size is asked for
constexpr int kPlainRows = 40;    // of a picture that goes to a file

bool IsReadable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return fd >= 0 && poll(&look, 1, 0) > 0;
}

void PrintLook(const JobView& view) {
  const JobLook& look = view.look();
  const JobModel& model = view.model();
  ordered_json object = {{"source", model.source}, {"state", WordOf(look)}};
  if (!look.address.empty()) object["url"] = look.Url();
  if (!model.notice.empty()) object["notice"] = model.notice;
  object["status"] = look.kind == JobLook::Kind::kAnswers ? ordered_json(look.status) : ordered_json();
  PrintJsonLine(object);
}

// The loop of the command.
class Top {
 public:
  Top(const TopOptions& options, JobTarget target)
      : options_(options),
        look_(LookOf(STDOUT_FILENO)),
        is_live_(look_.moves && options.output != "json"),
        view_(std::move(target), std::chrono::seconds(options.patience_seconds)),
        terminal_(STDIN_FILENO, STDOUT_FILENO) {}

  int Run() {
    if (is_live_) {
      terminal_.Enter();
      Draw();  // the first answer may take a while
    }
    for (std::uint64_t drawn = 0; !quit_;) {
      if (Clock::now() >= due_) {
        due_ = Clock::now() +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.every_seconds));
        view_.Refresh(Clock::now(), [this] { return GoesOn(); });
        if (GoesOn()) ++drawn;
        Draw();
        if (view_.state() != JobView::State::kFollowing || drawn >= most()) break;
      }
      Wait();
    }
    terminal_.Leave();
    return End();
  }

 private:
  std::uint64_t most() const {
    if (options_.count) return *options_.count;
    return is_live_ || options_.output == "json" ? UINT64_MAX : 1;
  }

  // Whether nobody has pressed a key or sent a signal that is still to be read.
  bool GoesOn() { return !IsReadable(terminal_.key_fd()) && !IsReadable(signals_.signal_fd()); }

  void Draw() {
    size_ = SizeOf(STDOUT_FILENO);
    if (options_.output == "json") {
      PrintLook(view_);
    } else if (is_live_) {
      terminal_.Show(Render(view_.model(), size_, {look_, "q: quit"}));
    } else {
      PrintPicture(std::max(size_.rows, kPlainRows));
    }
    std::fflush(stdout);
  }

  void PrintPicture(int rows) {
    const TerminalLook plain{false, look_.colors, look_.utf8};
    for (const std::string& line : Render(view_.model(), {size_.columns, rows}, {plain, ""}))
      std::printf("%s\n", line.c_str());
  }

  // Waits for a key, a signal or the next refresh. Draws again where the terminal's size has changed.
  void Wait() {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due_ - Clock::now()).count() + 1;
    std::array<pollfd, 3> fds = {pollfd{signals_.signal_fd(), POLLIN, 0}, pollfd{terminal_.key_fd(), POLLIN, 0},
                                 pollfd{STDOUT_FILENO, 0, 0}};
    poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, kSizeLookMs)));
    if (signals_.stop_signal() != 0 || (fds[2].revents & (POLLERR | POLLHUP)) != 0) quit_ = true;
    if ((fds[1].revents & POLLHUP) != 0) quit_ = true;
    if ((fds[1].revents & POLLIN) != 0) Answer(terminal_.ReadKey());
    if (!is_live_ || quit_) return;
    const TerminalSize size = SizeOf(STDOUT_FILENO);
    if (size.columns != size_.columns || size.rows != size_.rows) Draw();
  }

  void Answer(LiveTerminal::Key key) {
    if (key == LiveTerminal::Key::kQuit) quit_ = true;
    if (key == LiveTerminal::Key::kSuspend) terminal_.Suspend();
    if (key != LiveTerminal::Key::kQuit) due_ = Clock::now();
  }

  // Leaves the last picture on the terminal where the job has ended, or is lost.
  int End() {
    const bool lost = view_.state() == JobView::State::kLost;
    if (quit_) return signals_.stop_signal() != 0 ? kExitSignal + signals_.stop_signal() : kExitDone;
    if (is_live_) PrintPicture(size_.rows);
    std::fflush(stdout);
    if (lost) Complain("capstan", view_.model().source + ": " + view_.model().notice);
    return lost ? kExitFailed : kExitDone;
  }

  const TopOptions& options_;
  const TerminalLook look_;
  const bool is_live_;
  StopSignals signals_;
  JobView view_;
  LiveTerminal terminal_;
  TerminalSize size_;
  Clock::time_point due_{};
  bool quit_ = false;
};

}  // namespace

int RunTop(const TopOptions& options) {
  PrepareProcess();
  Result<JobTarget> target = FindTarget(options.word, options.access);
  if (!target.ok()) {
    Complain("capstan", target.status().message());
    return kExitUsage;
  }
  return Top(options, std::move(*target)).Run();
}

}  // namespace capstan::cli
