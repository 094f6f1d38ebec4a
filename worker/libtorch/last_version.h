// LastVersion: reads the weights after the job's last step.
//
// Kind:   owned by the trainer's thread.
// Fails:  kUnreachable: the servers ended before the weights were read.
// Why:    a round brings the weights before its step only. The job's end waits for readers that have asked within its
//         lease, so every process asks regularly, whether it has slots or waits for some.
#pragma once

#include <capstan/client.h>
#include <capstan/reader.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "common/base/status.h"

namespace capstan::libtorch {

class LastVersion {
 public:
  using Clock = std::chrono::steady_clock;

  // `lease`: the job's limits.lease.
  static Result<LastVersion> Connect(const ClientOptions& client, std::uint64_t steps,
                                     std::chrono::duration<double> lease);

  // When GoOnAsking is to be called again.
  Clock::time_point next() const { return asked_ + every_; }
  // Asks again if a part of the lease has passed since the last time.
  void GoOnAsking();
  // Called before the slots of step `step` end. In the job's last step it asks at once.
  void AskFor(std::uint64_t step);
  // Reads the last version and its optimizer's state, which reader() has from then on.
  Result<PulledVersion> Take();
  const Reader& reader() const { return *reader_; }
  // From now on the job's end does not wait for this process.
  void Close() { reader_.reset(); }

 private:
  LastVersion(std::unique_ptr<Reader> reader, std::uint64_t steps, Clock::duration every)
      : reader_(std::move(reader)), steps_(steps), every_(every) {}
  void Ask();

  std::unique_ptr<Reader> reader_;
  std::uint64_t steps_;
  Clock::duration every_;
  Clock::time_point asked_ = {};
};

}  // namespace capstan::libtorch
