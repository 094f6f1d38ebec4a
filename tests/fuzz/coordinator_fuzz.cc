// A coordinator and any messages from shards, workers and strangers: it ends by none of them, each message that it
// sends can be encoded, and the next coordinator can read its log. The first byte chooses the job's mode and where it
// stands.
#include "server/coordinator.h"

#include "server/storage/log_text.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"
#include "tests/server/coordinator_bench.h"

namespace capstan::fuzz {
namespace {

using server::CoordinatorBench;

PeerId PeerOf(const CoordinatorBench& bench, std::uint8_t from) {
  if (from < bench.shards.size()) return bench.shards[from].peer;
  return from == 15 ? CoordinatorBench::kStranger
                    : CoordinatorBench::PeerOf(bench.MakeJoin("w" + std::to_string(from)));
}

void CheckLogOf(const CoordinatorBench& bench) {
  const Result<std::string> text = server::PrintLogText(bench.log.records());
  Require(text.ok(), "what a coordinator remembers can be written down");
  const Result<server::ParsedLog> log = server::ParseLogText("log", *text);
  Require(log.ok() && log->whole_bytes == text->size(), "what a coordinator has written down can be read");
}

void RunCoordinator(std::string_view bytes) {
  if (bytes.empty()) return;
  const Mode mode = (bytes[0] & 1) == 0 ? Mode::kSync : (bytes[0] & 2) == 0 ? Mode::kAsync : Mode::kAllReduce;
  CoordinatorBench bench(2, 2, mode);
  if ((bytes[0] & 4) == 0) {
    bench.Run();
  } else {
    bench.Live();
  }
  Outbox out;
  for (const Frame& frame : FramesIn(bytes.substr(1))) {
    if (frame.later) bench.coordinator->Tick(bench.now += std::chrono::milliseconds(500), &out);
    bench.coordinator->Handle(PeerOf(bench, frame.from), frame.message, bench.now, &out);
    RequireSendable(out.envelopes);
    (void)bench.coordinator->WaitingFor(bench.now);
    (void)bench.coordinator->TakeRecords();
    out.Clear();
  }
  CheckLogOf(bench);
  bench.Live();  // the next coordinator believes it
}

const Registered coordinator_target({"coordinator", RunCoordinator});

}  // namespace
}  // namespace capstan::fuzz
