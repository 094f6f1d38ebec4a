#include "tests/sim/follower.h"

#include <utility>

#include "common/wire/messages/error.h"
#include "tests/sim/addresses.h"

namespace capstan::sim {

using client::ReaderCore;
using client::ReaderCoreOptions;

namespace {

ReaderCoreOptions OptionsOf(std::uint32_t block_elements) {
  ReaderCoreOptions options;
  options.name = "follower";
  options.nonce = kReader;
  options.coordinator = PeerId{kCoordinator};
  options.coordinator_address = "coordinator";
  options.block_elements = block_elements;
  options.connect = [](const std::string& endpoint) { return PeerId{kShards + std::stoull(endpoint.substr(6))}; };
  options.disconnect = [](PeerId) {};
  return options;
}

}  // namespace

Follower::Follower(std::uint32_t block_elements, OnReading on_reading)
    : on_reading_(std::move(on_reading)), core_(OptionsOf(block_elements)) {}

void Follower::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  core_.Handle(from, message, now, out);
  Run(now);
}

void Follower::Tick(Instant now, Outbox* out) {
  if (!waits_ && !done_ && now >= next_wish_) {
    core_.Ask(request_);
    waits_ = true;
  }
  core_.Tick(now, out);
  Run(now);
}

void Follower::Run(Instant now) {
  if (!waits_) return;
  if (!core_.status().ok()) {
    const Code code = core_.status().code();  // kRefused: by a replaced coordinator
    if (code != Code::kUnreachable && code != Code::kRefused)
      violation_ = "the follower gave up: " + core_.status().message();
    waits_ = false;
    next_wish_ = now + std::chrono::seconds(1);
  } else if (core_.answered()) {
    waits_ = false;
    if (const auto& reading = core_.reading()) {
      on_reading_(*reading, core_.array(0));
      request_.newer_than = reading->step;
    }
    done_ = !core_.reading() || core_.reading()->done;
    next_wish_ = now + std::chrono::milliseconds(100);
  }
}

}  // namespace capstan::sim
