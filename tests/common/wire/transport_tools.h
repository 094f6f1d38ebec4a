// Runs transports in a test: recorders of arriving messages, and loops that end by a condition or fail.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/random.h"
#include "common/wire/transport.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/patience.h"

namespace capstan::testing {

struct Received {
  PeerId from;
  Message message;
  Principal sender;
};

struct Recorder {
  std::vector<Received> messages;
  Transport::OnMessage Callback() {
    return [this](PeerId from, const Principal& sender, Message message) {
      messages.push_back({from, std::move(message), sender});
    };
  }
};

// Repeats `step` until it returns true. Fails the test after 30 s, times Patience().
inline void Until(const std::function<bool()>& step) {
  const std::chrono::seconds limit(30 * Patience());
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!step()) {
    if (std::chrono::steady_clock::now() > give_up) FAIL("it has not happened within " << limit.count() << " s");
  }
}

inline void RunUntil(const std::vector<std::pair<Transport*, Recorder*>>& running, const std::function<bool()>& done) {
  Until([&] {
    for (const auto& [transport, recorder] : running) {
      transport->Poll(std::chrono::milliseconds(1), recorder->Callback());
    }
    return done();
  });
}

// Returns bytes that depend on their position, on `size` and on `seed`.
inline Slice MakePayload(std::size_t size, std::uint64_t seed) {
  if (size == 0) return {};
  BufferPool pool(size);
  BufferRef buffer = pool.Take();
  std::uint64_t mixed = PhiloxKey(seed, size);
  for (std::size_t i = 0; i < size; ++i, mixed += 0x9E3779B97F4A7C15) {
    buffer->data()[i] = static_cast<std::byte>(mixed >> 56 ^ mixed >> 40);
  }
  const std::byte* start = buffer->data();
  return {std::move(buffer), start, size};
}

inline std::vector<std::byte> Bytes(const Slice& slice) { return {slice.bytes().begin(), slice.bytes().end()}; }

}  // namespace capstan::testing
