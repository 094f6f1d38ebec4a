#include "server/coordinator/final_weights.h"

#include <utility>

#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr Instant kPauseLeast = std::chrono::seconds(2);  // between Ticks, which are usually 0.1 s apart

}  // namespace

Result<std::unique_ptr<FinalWeights>> FinalWeights::Create(const View& view, const Catalog* catalog, std::string path,
                                                           const LimitsSection& limits, Transport* transport,
                                                           Instant now) {
  CAPSTAN_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(std::move(path), catalog->tensors()));
  std::unique_ptr<FinalWeights> final_weights(new FinalWeights(std::move(writer), limits, transport));
  std::vector<WeightsReader::Source> sources;
  for (const ShardAddress& address : view.shards) {
    CAPSTAN_ASSIGN_OR_RETURN(const PeerId peer, transport->Connect(address.endpoint, Role::kServer));
    sources.push_back({peer, address});
  }
  const auto write = [raw = final_weights.get()](const Block& block, std::uint32_t, const Slice& weights) {
    return raw->writer_.Write(block.flat_offset, weights.bytes());
  };
  final_weights->reader_ =
      std::make_unique<WeightsReader>(catalog, std::move(sources), view.generation, Version{view.step.value}, write);
  final_weights->last_arrival_ = final_weights->last_tick_ = now;
  return final_weights;
}

FinalWeights::~FinalWeights() {
  if (!reader_) return;
  for (const WeightsReader::Source& source : reader_->sources()) transport_->Disconnect(source.peer);
}

bool FinalWeights::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  return reader_->Handle(from, message, now, out);
}

void FinalWeights::Tick(Instant now, Outbox* out) {
  if (outcome_) return;
  const Instant pause = now - std::exchange(last_tick_, now);
  if (pause >= kPauseLeast) last_arrival_ += pause;  // this process paused, and has not read what arrived meanwhile
  if (reader_->missing() != missing_) {
    missing_ = reader_->missing();
    last_arrival_ = now;
  }
  reader_->Tick(now, out);
  if (!reader_->status().ok()) {
    outcome_ = reader_->status();
  } else if (reader_->done()) {
    outcome_ = writer_.Commit();
  } else {
    Wait(now, out);
  }
}

void FinalWeights::Wait(Instant now, Outbox* out) {
  const double waited = ToSeconds(now - last_arrival_);
  const std::string missing = Count(missing_, "block") + " of the final weights";
  if (limits_.stall > 0 && waited >= limits_.stall) {
    outcome_ = Timeout("no block has arrived for " + WholeSeconds(now - last_arrival_) + ": " + missing +
                       (missing_ == 1 ? " is missing" : " are missing"));
  } else if (waited >= limits_.report && now >= next_line_) {
    next_line_ = now + std::chrono::duration_cast<Instant>(std::chrono::duration<double>(limits_.report));
    out->Log(Severity::kWarning, "waiting " + WholeSeconds(now - last_arrival_) + " for " + missing);
  }
}

}  // namespace capstan::server
