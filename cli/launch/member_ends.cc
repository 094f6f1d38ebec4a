#include "cli/launch/member_ends.h"

#include <algorithm>

#include "common/config/job/job_section.h"

namespace capstan::cli {
namespace {

std::string AfterRestarts(const Member& member) {
  if (member.budget().max() == 0) return "";
  return " after " + std::to_string(member.budget().count()) + " restarts within an hour";
}

}  // namespace

Status MemberEnds::See(Member* member, TimePoint now) {
  return member->is_own() ? SeeOwn(member, now) : SeeOurs(member, now);
}

Status MemberEnds::SeeOurs(Member* member, TimePoint now) {
  const ChildProcess& process = member->process();
  if (process.succeeded()) return {};
  if (process.was_told_to_end() && member->is_worker()) {
    screen_->Line(member->name() + " left");
    SeeWhoIsLeft();
    return {};
  }
  const bool by_signal = process.was_killed() || process.was_told_to_end();
  if (by_signal && Restart(member, now)) return {};
  if (member->is_worker() && !by_signal) return SetAside(*member, process.HowItEnded());
  return member->AsFailure(process.HowItEnded() + (by_signal ? AfterRestarts(*member) : ""));
}

// A user's program that is killed or fails is restarted as often as its budget allows, unless it fails kFailuresMax
// times in a row without taking part in a step.
Status MemberEnds::SeeOwn(Member* member, TimePoint now) {
  const ChildProcess& process = member->process();
  if (process.succeeded()) {
    SeeGoodOwn(*member);
    return {};
  }
  // If no member has ever joined the job under its name here, the programs use names of their own. Then only the job's
  // steps show whether a program took part.
  const bool named =
      std::any_of(members_->begin(), members_->end(), [](const Member& one) { return one.ever_joined(); });
  const bool took_part = (member->joined() || !named) && member->saw_steps(progress_->steps_done());
  int& failures = failures_[member->name()];
  failures = process.was_killed() || took_part ? 0 : failures + 1;
  if (failures == kFailuresMax) {
    return SetAside(*member, process.HowItEnded() + ", " + std::to_string(kFailuresMax) +
                                 " times in a row, before it had computed a step");
  }
  if (Restart(member, now)) return {};
  const std::string how = process.HowItEnded() + AfterRestarts(*member);
  return process.was_killed() ? member->AsFailure(how) : SetAside(*member, how);
}

void MemberEnds::SeeGoodOwn(const Member& member) {
  UpdateProgress();
  const std::uint64_t done = progress_->steps_done(), steps = progress_->steps();
  if (done >= steps) return;
  const bool is_open = steps == kOpenEndedSteps;
  if (is_open) {
    screen_->Line(member.name() + " has ended, and the job has done " + std::to_string(done) + " steps");
  } else {
    screen_->Line("warning: " + member.name() + " exited with code 0 after " + std::to_string(done) + " of " +
                  std::to_string(steps) +
                  " steps, and is not started again: a worker's loop is to go on as long as the job has work for it");
  }
  SeeWhoIsLeft();
  if (nobody_left_) return;
  nobody_left_ = std::all_of(members_->begin(), members_->end(), [](const Member& one) {
    return !one.is_own() || (one.ended() && one.process().succeeded());
  });
  loops_ended_ = nobody_left_ && is_open;
  if (nobody_left_ && !is_open) screen_->Line("warning: no worker is left, and the job stops");
}

bool MemberEnds::Restart(Member* member, TimePoint now) {
  if (!member->PlanRestart(now, progress_->steps_done())) return false;
  const RestartBudget& budget = member->budget();
  screen_->Line("warning: " + member->name() + " " + member->process().HowItEnded() + "; starting it again (" +
                std::to_string(budget.count()) + " of at most " + std::to_string(budget.max()) +
                " times within an hour)");
  return true;
}

Status MemberEnds::SetAside(const Member& member, const std::string& how) {
  const std::string& text = member.failure();
  UpdateProgress();
  // If this launch has done no step, the job may never begin without this worker. While the coordinator is silent, no
  // worker can continue.
  if (progress_->steps_done() == steps_at_begin_ || silence_->coordinator_is_silent()) {
    return text.empty() ? member.AsFailure(how) : Refused(member.name() + ": " + text);
  }
  set_aside_[member.name()] = member.name() + (text.empty() ? " " + how : ": " + text);
  screen_->Line("warning: " + member.name() + " is set aside, and the job goes on without it: it " +
                member.WithLastLines(how));
  SeeWhoIsLeft();
  return {};
}

// Stops the job if all workers that the launcher started have ended and at least one was set aside. If none was, the
// job goes on: it may have workers that were started by hand, and the coordinator waits for those.
void MemberEnds::SeeWhoIsLeft() {
  std::string why;
  for (const Member& one : *members_) {
    if (!one.is_worker()) continue;
    if (!one.ended()) return;
    const auto reason = set_aside_.find(one.name());
    if (reason != set_aside_.end()) why += (why.empty() ? "" : "; ") + reason->second;
  }
  if (why.empty()) return;
  nobody_left_ = true;
  why_nobody_ = "no worker is left (" + why + ")";
  screen_->Line("warning: no worker is left, and the job stops");
}

void MemberEnds::UpdateProgress() {
  for (const std::string& line : progress_->Update()) screen_->Line(line);
}

}  // namespace capstan::cli
