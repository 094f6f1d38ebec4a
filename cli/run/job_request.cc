#include "cli/run/job_request.h"

#include <sys/random.h>

#include <chrono>
#include <optional>

#include "common/base/process_address.h"
#include "common/base/utf8.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"
#include "common/wire/permissions.h"
#include "common/wire/zmq_transport.h"
#include "server/net/coordinator_watch.h"

namespace capstan::cli {
namespace {

constexpr Instant kLookEvery = std::chrono::milliseconds(100);
constexpr Instant kAskEvery = std::chrono::milliseconds(500);

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<View> RequestView(const JobRequest& request, const std::function<Status(Instant now)>& look) {
  Join question;  // without a catalog it requests the job file and does not join
  question.worker = request.name;
  if (getrandom(&question.nonce, sizeof question.nonce, 0) != sizeof question.nonce) {
    return Unsupported("the system gives no random numbers (getrandom)");
  }
  TransportOptions options;
  options.keys = request.keys;
  const std::unique_ptr<Transport> transport = CreateZmqTransport(options);
  CAPSTAN_ASSIGN_OR_RETURN(const PeerId coordinator,
                           transport->Connect(EndpointOf(request.coordinator), Role::kCoordinator));
  std::optional<Result<View>> answer;
  Instant next_question{};
  while (!answer) {
    const Instant now = Now();
    CAPSTAN_RETURN_IF_ERROR(look(now));
    if (now >= next_question) {
      next_question = now + kAskEvery;
      (void)transport->Send(coordinator, {question, {}}).ok();  // a lost message is sent again
    }
    transport->Poll(kLookEvery, [&](PeerId, const Principal& sender, const Message& message) {
      if (!MaySend(sender, message.header, Receiver::kReader)) return;
      if (const auto* view = message.header.As<View>(); view != nullptr && !view->job_file.empty()) {
        answer = *view;
      } else if (const auto* error = message.header.As<Error>()) {
        answer = Refused("the coordinator at " + request.coordinator +
                         " gives no job file: " + Excerpt(error->message, kLongExcerptBytesMax));
      }
    });
  }
  return *std::move(answer);
}

Result<std::string> RequestJobFile(const JobRequest& request, StopSignals* signals) {
  server::CoordinatorWatch::Options watching;
  watching.address = request.coordinator;
  watching.said_in = "--join";
  watching.join_seconds = request.seconds;
  server::CoordinatorWatch watch(std::move(watching), Now());
  const auto look = [&](Instant now) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string line, watch.Look(now));
    if (!line.empty()) Print(Severity::kInfo, line);
    return signals->stop_signal() == 0 ? Status() : Refused("stopped while it waited for the coordinator's job file");
  };
  CAPSTAN_ASSIGN_OR_RETURN(View view, RequestView(request, look));
  return std::move(view.job_file);
}

}  // namespace capstan::cli
