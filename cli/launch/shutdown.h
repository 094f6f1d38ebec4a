// Shutdown: ends the processes of a job: carries out the orders of Ending, and tells the user which process is waited
// for.
//
// Kind:   owned by the launcher's thread.
// Why:    Ending only decides; this class sends the signals.
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
  static constexpr std::chrono::seconds kOwnStopMax{1};  // time for the launcher's own stop signal after a member's

  struct Options {
    std::optional<double> program_seconds;  // for the user's programs to end after the job; none: no such programs
    double report_seconds = 0;              // between two lines that name the processes that a finished job waits for
    bool has_snapshots = false;
  };

  // The members and the screen outlive this object.
  Shutdown(Options options, MemberList* members, Screen* screen);

  const Ending& ending() const { return ending_; }
  // Carries out Ending's next order. When the job is asked to stop, the coordinator takes a last snapshot and ends.
  // Then, or after a failure, the other processes are asked to end. After a good end they are first left to end by
  // themselves.
  void Advance(const Ending::Situation& situation, TimePoint now);
  // Answers processes that have reported a stop signal that is not the launcher's. If the whole job is being stopped,
  // they wait for the launcher's signal; otherwise the launcher sends them SIGTERM after kOwnStopMax.
  void AnswerStops(TimePoint now);

 private:
  void BeginLastSnapshot();
  void BeginWait(TimePoint now);
  void EndOurs(Ending::Order order);
  void SignalAll(int signal, std::optional<ProgramKind> kind = {});
  void HurryCoordinator();
  // Reports at intervals which processes a finished job still waits for.
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
