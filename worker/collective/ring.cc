#include "worker/collective/ring.h"

#include <algorithm>

#include "common/data/encoding.h"

namespace capstan::collective {
namespace {

// A rank may begin to send this many chunks beyond the one that it receives, so that some are in flight while it adds.
constexpr std::size_t kSendsInFlight = 2;

class Ring {
 public:
  Ring(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, RingHalves halves,
       std::span<float> data)
      : lanes_(lanes), members_(members), wire_(options.wire), tag_(tag), data_(data) {
    const auto steps = static_cast<std::size_t>(members.size) - 1;
    first_step_ = halves == RingHalves::kAllGather ? steps : 0;
    const std::size_t largest = (data.size() + steps) / (steps + 1);
    const std::size_t chunks_max = kItemsMax / std::max<std::size_t>(2 * steps, 1);
    chunk_ = std::max(options.chunk_bytes / BytesPerNumber(wire_), largest / chunks_max + 1);
    chunks_ = (largest + chunk_ - 1) / chunk_;
    items_ = (2 * steps - first_step_) * chunks_;
  }

  Status Run() {
    std::size_t asked = 0, sent = 0;
    for (std::size_t item = 0; item < items_; ++item) {
      for (; asked < items_ && asked < item + TransferLanes::kLanes; ++asked) CAPSTAN_RETURN_IF_ERROR(Ask(asked));
      for (; sent < items_ && sent <= item + kSendsInFlight && sent < item + chunks_; ++sent) {
        CAPSTAN_RETURN_IF_ERROR(Send(sent));
      }
      CAPSTAN_RETURN_IF_ERROR(lanes_->WaitReceived(item));
      TakeIn(item);
    }
    return lanes_->WaitAllSent();
  }

 private:
  // Returns the part of the array that message `item` carries. Step s sends what step s - 1 received. `behind` is 1 for
  // the chunk to send and 2 for the chunk to receive.
  std::span<float> Chunk(std::size_t item, std::size_t behind) const {
    const auto size = static_cast<std::size_t>(members_.size);
    const std::size_t back = (Step(item) + behind) % size;
    const std::size_t owner = (static_cast<std::size_t>(members_.me) + size - back) % size;
    const Part part = PartOf(data_.size(), members_.size, static_cast<int>(owner));
    const std::size_t begin = std::min(part.count, item % chunks_ * chunk_);
    return data_.subspan(part.begin + begin, std::min(chunk_, part.count - begin));
  }
  std::size_t Step(std::size_t item) const { return first_step_ + item / chunks_; }
  bool Sums(std::size_t item) const { return Step(item) + 1 < static_cast<std::size_t>(members_.size); }
  // A finished fp32 sum is received directly into `data_`.
  bool InPlace(std::size_t item) const { return wire_ == Encoding::kFp32 && !Sums(item); }
  std::span<std::byte> Incoming(std::size_t item, std::size_t count) {
    return lanes_->IncomingMemory(item, count * BytesPerNumber(wire_));
  }

  Status Ask(std::size_t item) {
    const std::span<float> chunk = Chunk(item, 2);
    if (chunk.empty()) return {};
    const auto to = InPlace(item) ? std::as_writable_bytes(chunk) : Incoming(item, chunk.size());
    return lanes_->Receive(item, members_.Neighbour(-1), tag_ + item, to);
  }

  Status Send(std::size_t item) {
    const std::span<float> chunk = Chunk(item, 1);
    if (chunk.empty()) return {};
    const int to = members_.Neighbour(1);
    if (wire_ == Encoding::kFp32) return lanes_->Send(item, to, tag_ + item, std::as_bytes(chunk));
    CAPSTAN_RETURN_IF_ERROR(lanes_->WaitSent(item));
    const auto encoded = lanes_->OutgoingMemory(item, chunk.size() * BytesPerNumber(wire_));
    Encode(wire_, chunk, encoded.data());
    const bool is_own_sum = Step(item) + 1 == static_cast<std::size_t>(members_.size);
    if (is_own_sum) Decode(wire_, encoded.data(), chunk.size(), chunk.data());
    return lanes_->Send(item, to, tag_ + item, encoded);
  }

  void TakeIn(std::size_t item) {
    const std::span<float> chunk = Chunk(item, 2);
    if (chunk.empty() || InPlace(item)) return;
    const std::byte* came = Incoming(item, chunk.size()).data();
    if (Sums(item)) return AddEncodedTo(chunk, wire_, came);
    Decode(wire_, came, chunk.size(), chunk.data());
  }

  TransferLanes* const lanes_;
  const Members& members_;
  const Encoding wire_;
  const Tag tag_;
  const std::span<float> data_;
  std::size_t first_step_ = 0;  // steps 0 to P-2 add up, steps P-1 to 2P-3 distribute the sums
  std::size_t chunk_ = 0;       // elements
  std::size_t chunks_ = 0;      // chunks of the largest part; a smaller part may have empty ones
  std::size_t items_ = 0;       // messages each way, empty ones included
};

}  // namespace

void AddTo(std::span<float> y, const float* x) {
  float* const to = y.data();
  const std::size_t count = y.size();
  for (std::size_t i = 0; i < count; ++i) to[i] += x[i];
}

void AddEncodedTo(std::span<float> y, Encoding encoding, const std::byte* encoded) {
  constexpr std::size_t kTile = 1024;  // stays in the first-level cache
  float tile[kTile];
  for (std::size_t i = 0; i < y.size(); i += kTile) {
    const std::span<float> some = y.subspan(i, std::min(kTile, y.size() - i));
    Decode(encoding, encoded + i * BytesPerNumber(encoding), some.size(), tile);
    AddTo(some, tile);
  }
}

Status RunRing(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, RingHalves halves,
               std::span<float> data) {
  if (members.size == 1 || data.empty()) return {};
  return Ring(lanes, members, options, tag, halves, data).Run();
}

}  // namespace capstan::collective
