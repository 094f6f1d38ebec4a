// HeldMessages: small messages that a transport holds, so that those to one peer leave in one frame.
//
// Kind:   owned by one thread.
// Limits: kPeersMax peers, and one CoalescedFrame for each.
// Why:    whom a message is held for, how long, and what happens when a queue is full is decided without a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/types.h"
#include "common/wire/coalesced_frame.h"

namespace capstan {

class HeldMessages {
 public:
  using Time = CoalescedFrame::Time;
  static constexpr std::size_t kPeersMax = 16;
  // Returns 0; EAGAIN if the peer's queue is full; or another error if the peer is gone. Does not call this object.
  using SendFrame = std::function<int(PeerId to, std::span<const std::byte> frame)>;

  // `dropped`: the number of messages whose peer was gone is added here; outlives this.
  HeldMessages(SendFrame send, std::uint64_t* dropped) : send_(std::move(send)), dropped_(dropped) {}

  bool empty() const { return count_ == 0; }
  // Adds a message to those that are held for the peer. Returns false if the message has to be sent alone, after those.
  bool Hold(PeerId to, const CoalescedMessage& message, Time now);
  // Sends what is held for the peer. Returns what SendFrame did; 0 if nothing is held. With EAGAIN it stays held.
  int Send(PeerId to);
  // Sends what has been held since `begun` or longer, except for peers whose queue was full. Returns whether that was
  // anything.
  bool SendSince(Time begun);
  bool SendAll() { return SendSince(Time::max()); }
  // Sends everything, also for peers whose queue was full.
  void Retry();
  // Sends what is held for the peer, or drops it.
  void End(PeerId peer);

 private:
  CoalescedFrame* Find(PeerId peer);
  int Send(CoalescedFrame* frame);
  void Remove(CoalescedFrame* frame);  // the last one takes its place

  const SendFrame send_;
  std::uint64_t* const dropped_;
  std::array<CoalescedFrame, kPeersMax> frames_;  // the first count_ are in use
  std::size_t count_ = 0;
};

}  // namespace capstan
