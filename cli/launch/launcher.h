// Launcher: runs a whole job on this machine: starts its processes, watches them, restarts those that are killed, and
// ends them together. Workers of a job with model.kind = "client" are programs of the user's own: the launcher starts
// the program that it was given, or takes over copies that run already and wait for this job (StartedScripts). Without
// a program it prints the address to connect to, and the coordinator waits.
//
// Kind:   used by main's thread, which must be the only thread when processes are started.
// Limits: processes that do not end when asked are killed, after the times in Ending.
// Fails:  a coordinator or server that reports a failure ends the job, with that message. MemberEnds says when the end
//         of a process fails the job, and SilenceWatch when silence does.
// Why:    one event loop for signals, events of processes, and the clock. The rules are in the parts: ProgramCalls
//         (what is started), Member (one process), SilenceWatch, MemberEnds, Shutdown.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/launch/member_ends.h"
#include "cli/launch/member_list.h"
#include "cli/launch/own_program.h"
#include "cli/launch/program_calls.h"
#include "cli/launch/screen.h"
#include "cli/launch/script_start.h"
#include "cli/launch/shutdown.h"
#include "cli/launch/silence_watch.h"
#include "cli/report/progress.h"
#include "cli/run/process.h"
#include "cli/run/run_directory.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

class Launcher {
 public:
  struct Options {
    std::uint32_t max_restarts = 30;  // for each process, within an hour
    RunBegin begin = RunBegin::kNew;
    std::string trace;                  // servers and workers write traces to this file name + their name; empty: none
    std::string coordinator;            // address on which the coordinator listens
    std::optional<OwnProgram> program;  // started as the workers
    double end_seconds = 300;           // the program may take so long to end by itself after the job
    Plaintext plaintext = Plaintext::kRefused;
    std::string keys;  // folder with the job's key files; empty: it has no keys
    // The run has done all its steps and needs no workers: it only writes its final weights.
    bool concludes = false;
  };

  // `binaries`: the folder of capstan-server and capstan-worker. All references and pointers outlive the launcher.
  Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
           StopSignals* signals, Screen* screen);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Takes over copies of Options::program that wait for this job. Call it before Run.
  void Adopt(StartedScripts scripts) { scripts_.emplace(std::move(scripts)); }

  // Returns when the job is done, has failed or was stopped, and no process is left.
  Status Run();
  // Whether the coordinator has ended with success, which means that all steps are done.
  bool job_done() const { return job_done_; }
  // Whether a job with kOpenEndedSteps was stopped because all its programs have ended well.
  bool loops_ended() const { return ends_.loops_ended(); }
  const Progress& progress() const { return progress_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  using Clock = std::chrono::steady_clock;

  Status Add(ProgramCall call);
  Status AddAll(std::vector<ProgramCall> calls);
  Status Start(Member* member);
  // Starts all processes except the coordinator, which runs already.
  Status StartMembers();
  // Tells the copies that wait for the job where its coordinator is.
  void TakeOverScripts();
  void StartDueMembers(Clock::time_point now);
  void WriteMissingPids();
  void Wait();
  void TakeEvents();
  void OnEvent(Member* member, const Event& event);
  void OnReady(Member* member, const Event& event);
  void OnFailed(Member* member, const std::string& text);
  void NoteJoined(const std::string& notice);
  void NoteRefused(const std::string& notice);
  void ReapChildren(Clock::time_point now);
  void SeeEnd(Member* member, Clock::time_point now);
  void ShowProgress(Clock::time_point now);
  void End(Clock::time_point now);
  // Fails the job, unless the status is ok. Only the first failure counts.
  void Fail(Status failure);

  const JobConfig& config_;
  const RunDirectory& directory_;
  const Options options_;
  StopSignals* const signals_;
  Screen* const screen_;
  const ProgramCalls calls_;
  Progress progress_;
  Endpoints endpoints_;
  std::optional<StartedScripts> scripts_;  // its members are in members_ once the job has a coordinator
  MemberList members_;
  SilenceWatch silence_;
  MemberEnds ends_;
  Shutdown shutdown_;
  bool all_were_ready_ = false;
  Status failure_;
  bool job_done_ = false;
  Clock::time_point next_plain_line_{};
};

}  // namespace capstan::cli
