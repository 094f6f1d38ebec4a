// Frames: an input as messages that peers send to a core, one behind the other.
//
// Kind:   values.
// Why:    a header's own bytes let a fuzzer change any field of it; hashes of payloads, which no fuzzer guesses, are
//         made right where the frame says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/messages.h"

namespace capstan::fuzz {

inline constexpr std::size_t kFramesMax = 64;

struct Frame {
  std::uint8_t from = 0;  // a peer, as the target counts them
  bool later = false;     // half a second has passed before it
  Message message;
};

// kFrameHashed: the header's payload hash is the payload's.
inline constexpr std::uint8_t kFramePeers = 0x0F, kFrameHashed = 0x10, kFrameLater = 0x20;

// Frames without a header that can be decoded are left out.
std::vector<Frame> FramesIn(std::string_view bytes);

// The frame that FramesIn reads as this one; `flags`: of the constants above, with the peer.
std::string FrameOf(std::uint8_t flags, const Header& header, std::string_view payload = {});

// Each of these messages can be encoded.
void RequireSendable(const std::vector<Envelope>& envelopes);

}  // namespace capstan::fuzz
