#include "server/final_weights.h"

#include "common/messages/view.h"

namespace capstan::server {

Result<std::unique_ptr<FinalWeights>> FinalWeights::Create(const View& view, const Catalog* catalog, std::string path,
                                                           Transport* transport, Instant now) {
  CAPSTAN_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(std::move(path), catalog->tensors()));
  std::unique_ptr<FinalWeights> final_weights(new FinalWeights(std::move(writer), transport));
  std::vector<WeightsReader::Source> sources;
  for (const ShardAddress& address : view.shards) {
    CAPSTAN_ASSIGN_OR_RETURN(const PeerId peer, transport->Connect(address.endpoint));
    sources.push_back({peer, address});
  }
  const auto write = [raw = final_weights.get()](const Block& block, std::uint32_t, const Slice& weights) {
    return raw->writer_.Write(block.flat_offset, weights.bytes());
  };
  final_weights->reader_ =
      std::make_unique<WeightsReader>(catalog, std::move(sources), view.generation, Version{view.step.value}, write);
  final_weights->last_arrival_ = now;
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
  if (reader_->missing() != missing_) {
    missing_ = reader_->missing();
    last_arrival_ = now;
  }
  reader_->Tick(now, out);
  if (!reader_->status().ok()) {
    outcome_ = reader_->status();
  } else if (reader_->done()) {
    outcome_ = writer_.Commit();
  } else if (now - last_arrival_ >= kSilenceMax) {
    outcome_ = Timeout("the final weights did not arrive: " + std::to_string(missing_) + " blocks are missing");
  }
}

}  // namespace capstan::server
