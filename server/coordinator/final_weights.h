// FinalWeights: fetches a finished job's weights over the coordinator's transport and writes final.safetensors.
//
// Kind:   owned by the coordinator loop's thread.
// Limits: keeps no block in memory: each is written to its place in the file when it arrives.
// Fails:  outcome(): no block has arrived for limits.stall, a shard's answers cannot be used, or the file cannot be
//         written. If a shard is lost meanwhile, another generation begins and this object is destroyed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job/limits_section.h"
#include "common/data/safetensors.h"
#include "common/wire/transport.h"
#include "common/wire/weights_reader.h"

namespace capstan {
struct View;
}  // namespace capstan

namespace capstan::server {

class FinalWeights {
 public:
  // `view`: a finished job's. `catalog` and `transport` must outlive this object.
  static Result<std::unique_ptr<FinalWeights>> Create(const View& view, const Catalog* catalog, std::string path,
                                                      const LimitsSection& limits, Transport* transport, Instant now);
  ~FinalWeights();
  FinalWeights(const FinalWeights&) = delete;
  FinalWeights& operator=(const FinalWeights&) = delete;

  // Returns false if `from` is not one of the shards that this object reads from.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Empty until the file is complete or has failed.
  const std::optional<Status>& outcome() const { return outcome_; }

 private:
  FinalWeights(SafetensorsWriter writer, const LimitsSection& limits, Transport* transport)
      : limits_(limits), writer_(std::move(writer)), transport_(transport) {}

  void Wait(Instant now, Outbox* out);

  const LimitsSection limits_;
  SafetensorsWriter writer_;
  Transport* const transport_;
  std::unique_ptr<WeightsReader> reader_;
  std::size_t missing_ = 0;
  Instant last_arrival_{}, last_tick_{}, next_line_{};
  std::optional<Status> outcome_;
};

}  // namespace capstan::server
