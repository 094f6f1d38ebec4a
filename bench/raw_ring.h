// RawRing: plain TCP sockets from each rank to the next, for what a link carries.
//
// Kind:   owned by one thread; it has one more inside while it carries.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/collective/rendezvous.h"

namespace capstan::bench {

class RawRing {
 public:
  RawRing() = default;
  ~RawRing();
  RawRing(const RawRing&) = delete;
  RawRing& operator=(const RawRing&) = delete;

  Status Connect(int rank, int size, collective::Rendezvous* rendezvous);
  // Sends that many bytes to the next rank while it receives as many from the one before.
  Status Carry(std::size_t bytes);

 private:
  int to_next_ = -1, from_last_ = -1;
  std::vector<std::byte> outgoing_, incoming_;
};

}  // namespace capstan::bench
