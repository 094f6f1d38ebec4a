// RawRing: plain TCP sockets from each rank to the next, to measure what a link carries.
//
// Kind:   owned by one thread; it uses a second thread during Transfer.
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
  // Sends `bytes` bytes to the next rank while it receives as many from the previous one.
  Status Transfer(std::size_t bytes);

 private:
  int to_next_ = -1, from_last_ = -1;
  std::vector<std::byte> outgoing_, incoming_;
};

}  // namespace capstan::bench
