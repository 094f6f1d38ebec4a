#include "server/net/coordinator_watch.h"

#include <chrono>
#include <utility>

namespace capstan::server {
namespace {

constexpr Instant kPauseLeast = std::chrono::seconds(2);  // between two calls of Look; loops call it ten times a second

std::string Whole(double seconds) { return std::to_string(static_cast<long>(seconds)) + " s"; }

}  // namespace

Result<std::string> CoordinatorWatch::Look(Instant now) {
  const Instant pause = now - std::exchange(last_look_, now);
  if (pause >= kPauseLeast) since_ += pause;  // this process was paused: messages that arrived are not read yet
  const double limit = was_answered_ ? options_.stall_seconds : options_.join_seconds;
  const double silence = std::chrono::duration<double>(now - since_).count();
  const std::string who = "the coordinator at " + options_.address;
  if (limit > 0 && silence >= limit) {
    return Timeout(who + (was_answered_
                              ? " has been silent for " + Whole(limit) + "; see why it ended"
                              : " did not answer within " + Whole(limit) +
                                    "; start it (capstan-server JOB.toml --coordinator) or check " + options_.said_in));
  }
  if (std::exchange(back_, false)) return who + " answers";
  if (silence < options_.report_seconds || (said_ && now < next_line_)) return std::string();
  said_ = true;
  next_line_ = now + std::chrono::duration_cast<Instant>(std::chrono::duration<double>(options_.report_seconds));
  return "waiting " + Whole(silence) + " for " + who +
         (was_answered_ ? ", which has answered before; if it ended, start it again with the command that it had"
                        : "; start it with: capstan-server JOB.toml --coordinator") +
         (limit > 0 ? "; giving up after " + Whole(limit) : "");
}

}  // namespace capstan::server
