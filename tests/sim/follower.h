// Follower: a program of a simulated cluster that reads a job: the real ReaderCore, asked for one version after the
// other until the last one.
//
// Kind:   owned by the cluster.
#pragma once

#include <functional>
#include <string>

#include "worker/client/reader_core.h"

namespace capstan::sim {

class Follower {
 public:
  // A complete version, with flat weights.
  using OnReading = std::function<void(const client::ReaderCore::Reading&, const float* weights)>;

  Follower(std::uint32_t block_elements, OnReading on_reading);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Whether it has the job's last version.
  bool done() const { return done_; }
  // An event that must never happen; empty: none.
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
