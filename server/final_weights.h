// FinalWeights: fetches a finished job's weights over the coordinator's own transport and writes final.safetensors.
//
// Kind:   owned by the coordinator loop's thread.
// Limits: no block is kept: each goes to its place in the file as it arrives.
// Fails:  outcome() says which shard stopped answering, or why the file cannot be written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/safetensors.h"
#include "common/transport.h"
#include "common/weights_reader.h"

namespace capstan {
struct View;
}  // namespace capstan

namespace capstan::server {

class FinalWeights {
 public:
  static constexpr Instant kSilenceMax = std::chrono::seconds(30);

  // `view`: of a finished job; `catalog` and `transport` outlive this.
  static Result<std::unique_ptr<FinalWeights>> Create(const View& view, const Catalog* catalog, std::string path,
                                                      Transport* transport, Instant now);
  ~FinalWeights();
  FinalWeights(const FinalWeights&) = delete;
  FinalWeights& operator=(const FinalWeights&) = delete;

  // False: not from one of the shards it reads from.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Nothing while it is under way.
  const std::optional<Status>& outcome() const { return outcome_; }

 private:
  FinalWeights(SafetensorsWriter writer, Transport* transport) : writer_(std::move(writer)), transport_(transport) {}

  SafetensorsWriter writer_;
  Transport* const transport_;
  std::unique_ptr<WeightsReader> reader_;
  std::size_t missing_ = 0;
  Instant last_arrival_{};
  std::optional<Status> outcome_;
};

}  // namespace capstan::server
