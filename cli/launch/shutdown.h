// Shutdown: ends the processes of a job: carries out the orders of Ending, and tells the user what they wait for.
//
// Kind:   owned by the launcher's thread.
// Why:    Ending decides in which order processes end; this class sends the signals, so that each stays simple.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/launch/ending.h"
#include "cli/launch/member_list.h"
#include "cli/launch/screen.h"

namespace capstan::cli {

class Shutdown {
 public:
  using TimePoint = Ending::TimePoint;
  static constexpr std::chrono::seconds kOwnStopMax{1};  // from a member's stop signal to the launcher's own

  struct Options {
    std::optional<double> program_seconds;  // so long the user's programs may take after the job; none: there are none
    double report_seconds = 0;              // between two lines that name the processes that a finished job waits for
    bool has_snapshots = false;
  };

  // The members and the screen outlive this object.
  Shutdown(Options options, MemberList* members, Screen* screen);

  const Ending& ending() const { return ending_; }
  // Carries out the next order. When the job is asked to stop, the coordinator takes a last snapshot and ends; then, or
  // after any failure, the other processes are asked to end. After a good end they end by themselves.
  void Advance(const Ending::Situation& situation, TimePoint now);
  // Answers processes that another sender asked to stop: they may, unless the whole job was asked to stop.
  void AnswerStops(TimePoint now);

 private:
  void BeginLastSnapshot();
  void BeginWait(TimePoint now);
  void EndOurs(Ending::Order order);
  void SignalAll(int signal, std::optional<ProgramKind> kind = {});
  void HurryCoordinator();
  // Reports again which processes a finished job waits for.
  void ShowRemaining(TimePoint now);
  TimePoint NextReport(TimePoint now) const;

  const Options options_;
  MemberList* const members_;
  Screen* const screen_;
  Ending ending_;
  bool hurried_ = false;  // whether HurryCoordinator has acted
  TimePoint next_remaining_line_{};
};

}  // namespace capstan::cli
