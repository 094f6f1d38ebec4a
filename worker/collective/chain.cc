#include "worker/collective/chain.h"

#include <algorithm>
#include <cstring>

namespace capstan::collective {
namespace {

struct Cut {
  std::size_t elements, chunks;
};

Cut CutOf(std::size_t count, const GroupOptions& options) {
  const std::size_t elements = std::max(options.chunk_bytes / sizeof(float), count / kItemsMax + 1);
  return {elements, (count + elements - 1) / elements};
}

template <class T>
std::span<T> Chunk(std::span<T> data, const Cut& cut, std::size_t chunk) {
  return data.subspan(chunk * cut.elements, std::min(cut.elements, data.size() - chunk * cut.elements));
}

// How many places this member comes after the root, counted along the ring of ranks.
int DistanceFrom(int root, const Members& members) { return (members.me - root + members.size) % members.size; }

}  // namespace

Status RunBroadcast(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                    std::span<float> data) {
  const Cut cut = CutOf(data.size(), options);
  const int distance = DistanceFrom(root, members);
  const bool receives = distance > 0, sends = distance + 1 < members.size;
  std::size_t asked = 0;
  for (std::size_t chunk = 0; chunk < cut.chunks; ++chunk) {
    for (; receives && asked < cut.chunks && asked < chunk + TransferLanes::kLanes; ++asked) {
      const auto to = std::as_writable_bytes(Chunk(data, cut, asked));
      CAPSTAN_RETURN_IF_ERROR(lanes->Receive(asked, members.Neighbour(-1), tag + asked, to));
    }
    CAPSTAN_RETURN_IF_ERROR(lanes->WaitReceived(chunk));
    if (!sends) continue;
    const auto from = std::as_bytes(Chunk(data, cut, chunk));
    CAPSTAN_RETURN_IF_ERROR(lanes->Send(chunk, members.Neighbour(1), tag + chunk, from));
  }
  return lanes->WaitAllSent();
}

Status RunReduce(TransferLanes* lanes, const Members& members, const GroupOptions& options, Tag tag, int root,
                 std::span<float> data) {
  const Cut cut = CutOf(data.size(), options);
  const int distance = DistanceFrom(root, members);
  const bool receives = distance + 1 < members.size, sends = distance > 0;
  std::size_t asked = 0;
  for (std::size_t chunk = 0; chunk < cut.chunks; ++chunk) {
    for (; receives && asked < cut.chunks && asked < chunk + TransferLanes::kLanes; ++asked) {
      const auto to = lanes->IncomingMemory(asked, Chunk(data, cut, asked).size_bytes());
      CAPSTAN_RETURN_IF_ERROR(lanes->Receive(asked, members.Neighbour(1), tag + asked, to));
    }
    CAPSTAN_RETURN_IF_ERROR(lanes->WaitReceived(chunk));
    const std::span<float> own = Chunk(data, cut, chunk);
    const std::byte* came = receives ? lanes->IncomingMemory(chunk, own.size_bytes()).data() : nullptr;
    if (!sends) {
      if (receives) AddEncodedTo(own, Encoding::kFp32, came);
      continue;
    }
    CAPSTAN_RETURN_IF_ERROR(lanes->WaitSent(chunk));
    const auto out = lanes->OutgoingMemory(chunk, own.size_bytes());
    std::memcpy(out.data(), own.data(), own.size_bytes());
    // The memory comes from operator new, which aligns it for floats, so the cast is allowed.
    if (receives) AddEncodedTo({reinterpret_cast<float*>(out.data()), own.size()}, Encoding::kFp32, came);
    CAPSTAN_RETURN_IF_ERROR(lanes->Send(chunk, members.Neighbour(-1), tag + chunk, out));
  }
  return lanes->WaitAllSent();
}

Status RunGather(TransferLanes* lanes, const Members& members, Tag tag, int root, std::span<const float> mine,
                 std::span<float> all) {
  if (mine.empty()) return {};
  const auto me = static_cast<std::size_t>(members.me);
  if (members.me != root) {
    CAPSTAN_RETURN_IF_ERROR(lanes->Send(0, root, tag + me, std::as_bytes(mine)));
    return lanes->WaitAllSent();
  }
  const auto size = static_cast<std::size_t>(members.size);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(me * mine.size()));
  for (std::size_t i = 0; i < size; ++i) {
    if (i == me) continue;
    const auto to = std::as_writable_bytes(all.subspan(i * mine.size(), mine.size()));
    CAPSTAN_RETURN_IF_ERROR(lanes->Receive(i, static_cast<int>(i), tag + i, to));
  }
  for (std::size_t lane = 0; lane < TransferLanes::kLanes; ++lane) CAPSTAN_RETURN_IF_ERROR(lanes->WaitReceived(lane));
  return {};
}

// The dissemination barrier of Hensgen, Finkel and Manber, 1988: after round k, counted from 0, each rank knows that
// min(2^(k+1), size) ranks, itself included, have arrived.
Status RunBarrier(TransferLanes* lanes, const Members& members, Tag tag) {
  std::size_t round = 0;
  for (int distance = 1; distance < members.size; distance *= 2, ++round) {
    const auto token = lanes->OutgoingMemory(round, 1), came = lanes->IncomingMemory(round, 1);
    CAPSTAN_RETURN_IF_ERROR(lanes->Receive(round, members.Neighbour(-distance), tag + round, came));
    CAPSTAN_RETURN_IF_ERROR(lanes->Send(round, members.Neighbour(distance), tag + round, token));
    CAPSTAN_RETURN_IF_ERROR(lanes->WaitReceived(round));
  }
  return lanes->WaitAllSent();
}

}  // namespace capstan::collective
