// A worker's session and any messages from a coordinator and shards: it ends by none of them, each message that it
// sends can be encoded, and a job file or work that it hands on is refused with a reason, or sound. The first byte
// chooses the job's mode and whether the worker has declared its model.
#include "common/job_config.h"
#include "tests/client/session_bench.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"
#include "worker/client/slot_sums.h"

namespace capstan::fuzz {
namespace {

using client::Session;
using client::SessionBench;

// Handles an event as a worker does.
void Use(const Session::Event& event) {
  if (const auto* job_file = std::get_if<Session::JobFile>(&event)) {
    const Result<JobConfig> config = ParseJobConfig(job_file->text, "the coordinator's job file");
    if (!config.ok()) RequireReason(config.status(), "the coordinator's job file");
  }
  if (const auto* ready = std::get_if<Session::WorkReady>(&event)) {
    const client::SlotSums sums(ready->work.slots, ready->work.slot_count);  // CHECKs on slots that are not the job's
    Require(!sums.slots().empty(), "work has slots");
  }
  if (const auto* failed = std::get_if<Session::Failed>(&event)) RequireReason(failed->status, "");
}

bool IsEnd(const Session::Event& event) {
  return std::holds_alternative<Session::Failed>(event) || std::holds_alternative<Session::Finished>(event);
}

void RunSession(std::string_view bytes) {
  if (bytes.empty()) return;
  SessionBench bench((bytes[0] & 1) == 0 ? Mode::kSync : (bytes[0] & 2) == 0 ? Mode::kAsync : Mode::kAllReduce);
  if ((bytes[0] & 4) == 0) bench.Join({0, 1}).Ready();
  Outbox out;
  bool has_ended = false;
  for (const Frame& frame : FramesIn(bytes.substr(1))) {
    if (has_ended) return;
    if (frame.later) bench.session->Tick(bench.now += std::chrono::milliseconds(500), &out);
    const PeerId from =
        frame.from < SessionBench::kShards ? SessionBench::PeerOf(frame.from) : SessionBench::kCoordinator;
    bench.session->Handle(from, frame.message, bench.now, &out);
    RequireSendable(out.envelopes);
    (void)bench.session->WaitingFor();
    for (const Session::Event& event : bench.session->TakeEvents()) {
      Use(event);
      has_ended = has_ended || IsEnd(event);
    }
    out.Clear();
  }
}

const Registered session_target({"session", RunSession});

}  // namespace
}  // namespace capstan::fuzz
