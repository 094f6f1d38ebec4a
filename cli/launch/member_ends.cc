#include "cli/launch/member_ends.h"

#include <algorithm>

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
  if (member->is_worker() && !by_signal) return SeeFailedWorker(member, now);
  return member->AsFailure(process.HowItEnded() + (by_signal ? AfterRestarts(*member) : ""));
}

Status MemberEnds::SeeOwn(Member* member, TimePoint now) {
  const ChildProcess& process = member->process();
  if (process.succeeded()) {
    SeeGoodOwn(*member);
    return {};
  }
  if (!process.was_killed()) return SeeFailedWorker(member, now);
  failures_[member->name()] = 0;
  if (Restart(member, now)) return {};
  return member->AsFailure(process.HowItEnded() + AfterRestarts(*member));
}

Status MemberEnds::SeeRefused(const Member& member, TimePoint now) {
  const ChildProcess& process = member.process();
  if (!process.ended() || process.was_killed() || process.succeeded() || !member.WasRefused(now)) return {};
  return member.AsFailure("was refused, and would be again: mend it, then go on");
}

// A worker that fails by itself is restarted as often as its budget allows, unless it fails kFailuresMax times in a row
// without taking part in a step.
Status MemberEnds::SeeFailedWorker(Member* member, TimePoint now) {
  if (Status refused = member->is_own() ? SeeRefused(*member, now) : Status(); !refused.ok()) return refused;
  UpdateProgress();
  const std::string how = member->process().HowItEnded();
  const bool begun = progress_->steps_done() != steps_at_begin_;
  const bool any_joined =
      std::any_of(members_->begin(), members_->end(), [](const Member& one) { return one.ever_joined(); });
  const bool of_all = !member->is_own() && !begun && !any_joined;  // all workers have this error
  if (of_all || silence_->coordinator_is_silent()) return SetAside(*member, how);
  int& failures = failures_[member->name()];
  failures = TookPart(*member) ? 0 : failures + 1;
  if (failures == kFailuresMax) {
    return SetAside(*member, how + ", " + std::to_string(kFailuresMax) +
                                 " times in a row, before it had computed a step");
  }
  if (Restart(member, now)) return {};
  return SetAside(*member, how + AfterRestarts(*member));
}

// If no member has ever joined the job under its name here, the programs use names of their own. Then only the job's
// steps show whether a program took part.
bool MemberEnds::TookPart(const Member& member) const {
  const bool named =
      std::any_of(members_->begin(), members_->end(), [](const Member& one) { return one.ever_joined(); });
  return (member.joined() || !named) && member.saw_steps(progress_->steps_done());
}

void MemberEnds::SeeGoodOwn(const Member& member) {
  UpdateProgress();
  const std::uint64_t done = progress_->steps_done(), steps = progress_->steps();
  if (done >= steps) return;
  screen_->Line("warning: " + member.name() + " exited with code 0 after " + std::to_string(done) + " of " +
                std::to_string(steps) +
                " steps, and is not started again: a worker's loop is to go on as long as the job has work for it");
  SeeWhoIsLeft();
  if (nobody_left_) return;
  nobody_left_ = std::all_of(members_->begin(), members_->end(), [](const Member& one) {
    return !one.is_own() || (one.ended() && one.process().succeeded());
  });
  if (nobody_left_) screen_->Line("warning: no worker is left, and the job stops");
}

bool MemberEnds::Restart(Member* member, TimePoint now) {
  if (!member->PlanRestart(now, progress_->steps_done())) return false;
  const RestartBudget& budget = member->budget();
  screen_->Line("warning: " + member->name() + " " + member->process().HowItEnded() + "; starting it again (" +
                std::to_string(budget.count()) + " of at most " + std::to_string(budget.max()) +
                " times within an hour)");
  return true;
}

// Whether this launch has done a step, or as many workers are left as the job needs to begin.
bool MemberEnds::MayBeginWithout(const Member& member) const {
  if (progress_->steps_done() != steps_at_begin_) return true;
  const auto left = std::count_if(members_->begin(), members_->end(), [&](const Member& one) {
    return one.is_worker() && one.name() != member.name() && !one.ended();
  });
  return static_cast<std::size_t>(left) >= workers_needed_;
}

Status MemberEnds::SetAside(const Member& member, const std::string& how) {
  const std::string& text = member.failure();
  UpdateProgress();
  // While the coordinator is silent, no worker can continue.
  if (!MayBeginWithout(member) || silence_->coordinator_is_silent()) {
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
