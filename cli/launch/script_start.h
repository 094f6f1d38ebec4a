// ScriptStart: starts the copies of a script before their job exists, and waits for the facts of the first copy.
//
// Kind:   owned by the launcher's thread.
// Limits: the first copy has `prepare_seconds` to call prepare(). Every kReportSeconds a line says who is waited for.
// Fails:  kUnreachable: a copy ended before. kTimeout: the first copy did not ask in time. kRefused: the user stopped
//         the launcher. The copies are then killed with this object.
// Why:    only the facts of copy 0 make the job, so that no timing decides; the other copies are compared with them
//         when they join.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/launch/member.h"
#include "cli/launch/screen.h"
#include "cli/launch/script_broker.h"
#include "cli/launch/script_facts.h"
#include "cli/run/process.h"
#include "common/base/status.h"

namespace capstan::cli {

// Copies of a script that run already when their job is launched, and the broker at which they ask for it.
struct StartedScripts {
  std::vector<Member> members;  // in the order of their indices
  ScriptBroker broker;
};

class ScriptStart {
 public:
  static constexpr int kReportSeconds = 15;

  struct Options {
    std::string script;  // for messages
    double prepare_seconds = 0;
    std::uint32_t max_restarts = 0;
  };

  // `signals` and `screen` outlive this object.
  ScriptStart(Options options, ScriptBroker broker, StopSignals* signals, Screen* screen)
      : options_(std::move(options)), scripts_{{}, std::move(broker)}, signals_(signals), screen_(screen) {}

  // Starts one copy for each call, and returns the facts of the first.
  Result<ScriptFacts> Await(std::vector<ProgramCall> calls);
  // Returns the copies, which go on. Call it once, after Await.
  StartedScripts Take() { return std::move(scripts_); }

 private:
  using Clock = std::chrono::steady_clock;

  void Wait();
  Status LookAtMembers();
  Status LookAtTime(Clock::time_point begin);
  Status EndedTooEarly(const Member& member) const;

  const Options options_;
  StartedScripts scripts_;
  StopSignals* const signals_;
  Screen* const screen_;
  Clock::time_point next_report_{};
};

}  // namespace capstan::cli
