// Follower: a program in a simulated cluster that reads the job's weights: the real ReaderCore, which is asked for one
// newer version after the other until the last one.
//
// Kind:   owned by the cluster.
#pragma once

#include <functional>
#include <string>

#include "worker/client/reader_core.h"

namespace capstan::sim {

class Follower {
 public:
  // Takes a version that was read whole; `weights` are in catalog order.
  using OnReading = std::function<void(const client::ReaderCore::Reading&, const float* weights)>;

  Follower(std::uint32_t block_elements, OnReading on_reading);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Whether it has the job's last version, or there is no newer one.
  bool done() const { return done_; }
  // What happened that must never happen; empty: nothing.
  const std::string& violation() const { return violation_; }
  std::string WaitingFor() const { return core_.WaitingFor(); }

 private:
  void Run(Instant now);

  const OnReading on_reading_;
  client::ReaderCore core_;
  client::ReaderCore::Request request_;
  Instant next_wish_{};
  bool waits_ = false, done_ = false;
  std::string violation_;
};

}  // namespace capstan::sim
