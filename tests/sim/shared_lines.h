// SharedLines: payloads that lie in their sender's memory until they arrive, as between processes of one machine.
//
// Kind:   owned by the cluster. The connections are the product's MemoryPeers, over sockets within this process.
// Why:    a reference can outlive what it names: its sender dies, gives the connection up, or uses the memory again.
//         The cluster checks that a receiver copies what was sent, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/random.h"
#include "common/base/shared_memory.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/memory_peer.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

class SharedLines {
 public:
  // `copies`: where received payloads lie; the senders' buffers have the same size.
  SharedLines(BufferPool* copies, Flaw flaw);

  // Gives up the ends of connections whose other process has been dead for a second, as SharedPayloads does, and ends
  // the processes for which `lives` returns false. Call it often.
  void Tend(Instant now, const std::function<bool(std::uint64_t node)>& lives);

  // Puts the payload into the sender's memory. Returns the reference to it; nothing if the receiver cannot read it yet.
  // Both processes live.
  std::optional<PayloadReference> Refer(std::uint64_t from, std::uint64_t to, const Slice& payload);
  // Copies a payload that has arrived. kStale: its connection is gone. kCorrupt: its sender broke the rules.
  Result<Slice> Copy(std::uint64_t from, std::uint64_t to, PayloadReference reference);
  // Whether the sender of that payload has given the connection up, and so may have used its memory again.
  bool IsGivenUp(std::uint64_t from, std::uint64_t to) const;
  // Has a process give up a connection on which it has sent a payload that is not copied yet. Returns false if there is
  // none.
  bool GiveUpOne(RandomStream* random);
  // Call when a process dies: its memory and its ends of connections go.
  void End(std::uint64_t node);

 private:
  using Ends = std::pair<std::uint64_t, std::uint64_t>;
  struct Process {
    std::shared_ptr<SharedMemory> memory;
    std::unique_ptr<BufferPool> pool;
  };
  struct Connection {
    std::unique_ptr<MemoryPeer> peer;
    bool given_up = false;           // by the other side
    std::optional<Instant> ended{};  // when it was noticed that the other side had gone
  };

  Process& ProcessOf(std::uint64_t node);
  void Connect(std::uint64_t from, std::uint64_t to);

  BufferPool* const copies_;
  const Flaw flaw_;
  std::uint64_t connections_ = 0;
  std::map<std::uint64_t, Process> processes_;
  std::map<Ends, Connection> ends_;  // by the process whose end it is, and the other one
  // For a flaw: what references named when they were sent.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::span<const std::byte>> named_;
};

}  // namespace capstan::sim
