#include "cli/doctor/coordinator_check.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "cli/run/connect_attempt.h"
#include "cli/run/exposure.h"
#include "cli/run/job_request.h"
#include "common/base/process_address.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/keys/key_file.h"
#include "common/keys/role_name.h"

namespace capstan::cli {
namespace {

constexpr double kSkewMost = 2;  // seconds

double Seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::string Fixed(const char* format, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Adds to a silence what a plain TCP connection says about it.
class Silence {
 public:
  explicit Silence(const std::string& address) : is_local_(IsLocalAddress(address)) {
    if (!is_local_) attempt_.Begin(WithoutKey(address));
  }

  // Returns an error when the connection has failed or the time is up.
  Status Look(Instant now) {
    if (end_ == Instant{}) end_ = now + kCoordinatorTime;
    if (!attempt_.IsOpen() && !attempt_.failure().empty()) return Unreachable(attempt_.failure());
    if (now < end_) return {};
    const char* const why = is_local_           ? "; perhaps no job runs there, or it is another user's"
                            : attempt_.IsOpen() ? ", as behind a firewall"
                                                : "; what listens there is no coordinator, or asks for a key";
    return Timeout("no answer in " + std::to_string(kCoordinatorTime.count()) + " s" + why);
  }

 private:
  const bool is_local_;
  ConnectAttempt attempt_;
  Instant end_{};
};

Status ReadAnswer(const View& view, CoordinatorFacts* facts) {
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(view.job_file, "the coordinator's job file"));
  facts->job = config.name();
  facts->steps = config.steps();
  facts->step = view.step.value;
  return {};
}

Status Ask(CoordinatorFacts* facts) {
  CAPSTAN_ASSIGN_OR_RETURN(facts->address, ReadProcessAddress("--coordinator", facts->address));
  JobRequest request{facts->address, "doctor"};
  if (!facts->key_file.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const KeyFile file, ReadKeyFile(facts->key_file));
    facts->role = NameOf(file.role);
    CAPSTAN_ASSIGN_OR_RETURN(request.keys, LoadKeys(facts->key_file));
  }
  facts->exposure = ExposureWarning(facts->address);
  Silence silence(facts->address);
  const double before = Seconds(std::chrono::system_clock::now());
  CAPSTAN_ASSIGN_OR_RETURN(const View view, RequestView(request, [&](Instant now) { return silence.Look(now); }));
  const double after = Seconds(std::chrono::system_clock::now());
  facts->answer_seconds = after - before;
  // The coordinator wrote its time between the two; the middle is the best guess.
  if (view.clock_ms != 0) facts->skew_seconds = static_cast<double>(view.clock_ms) / 1e3 - (before + after) / 2;
  return ReadAnswer(view, facts);
}

}  // namespace

CoordinatorFacts AskCoordinator(const std::string& address, const std::string& key_file) {
  CoordinatorFacts facts;
  facts.address = address;
  facts.key_file = key_file;
  if (Status status = Ask(&facts); !status.ok()) facts.problem = status.message();
  return facts;
}

Finding CheckCoordinator(const CoordinatorFacts& facts) {
  if (!facts.problem.empty()) {
    return Problem("coordinator",
                   "the coordinator at " + WithoutKey(facts.address) + " is not reached: " + facts.problem,
                   "check that it runs (capstan status on its machine), the address that it prints when it starts, the "
                   "firewalls between, and --key-file");
  }
  std::string text = "the coordinator of job \"" + facts.job + "\" at " + WithoutKey(facts.address) + " answers in " +
                     Fixed("%.1f", facts.answer_seconds * 1e3) + " ms, at step " + std::to_string(facts.step) + " of " +
                     std::to_string(facts.steps);
  if (!facts.role.empty())
    return Good("coordinator", text + "; it accepts the key, whose file says role = \"" + facts.role + "\"");
  text += "; no key is needed";
  if (facts.exposure.empty()) return Good("coordinator", text);
  return Warning("coordinator", text, facts.exposure);
}

Finding CheckSkew(const CoordinatorFacts& facts) {
  if (!facts.skew_seconds) return Good("clock skew", "the coordinator does not say its time");
  const double skew = *facts.skew_seconds;
  const std::string text = "the coordinator's clock is " + Fixed("%.3f", std::abs(skew)) + " s " +
                           (skew >= 0 ? "ahead of" : "behind") + " this machine's";
  // Half of the time that the answer took cannot be told from a difference of the clocks.
  if (std::abs(skew) <= kSkewMost + facts.answer_seconds / 2) return Good("clock skew", text);
  return Warning("clock skew", text,
                 "run chronyd or systemd-timesyncd on both machines: otherwise their logs cannot be compared, and keys "
                 "with an end date end early or late");
}

}  // namespace capstan::cli
