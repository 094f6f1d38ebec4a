#include "tests/sim/shared_lines.h"

#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <vector>

#include <capstan/status.h>

namespace capstan::sim {

namespace {

constexpr std::size_t kRegionBytes = std::size_t{256} << 10;
constexpr Instant kKeptFor = std::chrono::seconds(1);

}  // namespace

SharedLines::SharedLines(BufferPool* copies, Flaw flaw) : copies_(copies), flaw_(flaw) {}

SharedLines::Process& SharedLines::ProcessOf(std::uint64_t node) {
  Process& process = processes_[node];
  if (process.pool) return process;
  process.memory = std::make_shared<SharedMemory>(kRegionBytes, kRegionBytes);
  process.pool = std::make_unique<BufferPool>(copies_->buffer_bytes(), process.memory);
  return process;
}

void SharedLines::Connect(std::uint64_t from, std::uint64_t to) {
  int sockets[2];
  CAPSTAN_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
  auto mine = std::make_unique<MemoryPeer>(sockets[0], ProcessOf(from).memory);
  auto theirs = std::make_unique<MemoryPeer>(sockets[1], ProcessOf(to).memory);
  CAPSTAN_CHECK(mine->Greet(++connections_, from) && theirs->Read() && theirs->Greet(theirs->id(), theirs->caller()) &&
                mine->Read());
  ends_[{from, to}] = {std::move(mine)};
  ends_[{to, from}] = {std::move(theirs)};
}

std::optional<PayloadReference> SharedLines::Refer(std::uint64_t from, std::uint64_t to, const Slice& payload) {
  if (payload.size > copies_->buffer_bytes()) return std::nullopt;
  const auto known = ends_.find({from, to});
  if (known != ends_.end()) CAPSTAN_CHECK(known->second.peer->Read());
  if (known == ends_.end() || known->second.peer->has_ended()) Connect(from, to);
  BufferRef buffer = ProcessOf(from).pool->Take();
  std::memcpy(buffer->data(), payload.data, payload.size);
  const std::byte* const data = buffer->data();
  if (flaw_ == Flaw::kReferredNotKept) buffer = copies_->Take();
  const std::optional<PayloadReference> reference =
      ends_[{from, to}].peer->Refer({std::move(buffer), data, payload.size});
  MemoryPeer& theirs = *ends_[{to, from}].peer;
  CAPSTAN_CHECK(theirs.Read());  // maps a region that is new to it
  if (reference && flaw_ == Flaw::kCopiedTooEarly) {
    named_[{reference->connection, reference->number}] = theirs.Find(*reference)->bytes;
    theirs.Copied(*reference);
  }
  return reference;
}

Result<Slice> SharedLines::Copy(std::uint64_t from, std::uint64_t to, PayloadReference reference) {
  const auto end = ends_.find({to, from});
  if (end == ends_.end()) return Status(Code::kStale, "there is no connection");
  MemoryPeer& peer = *end->second.peer;
  if (flaw_ == Flaw::kReferenceOfAnyConnection) reference.connection = peer.id();
  const auto named = named_.find({reference.connection, reference.number});
  const bool is_named = named != named_.end() && reference.connection == peer.id();
  const Result<LentBytes> lent = is_named ? LentBytes{named->second, nullptr} : peer.Find(reference);
  if (!lent.ok()) return lent.status();
  const std::span<const std::byte> bytes = lent->bytes;
  BufferRef copy = copies_->Take();
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  if (!is_named) peer.Copied(reference);
  const std::byte* const data = copy->data();
  return Slice{std::move(copy), data, bytes.size()};
}

bool SharedLines::IsGivenUp(std::uint64_t from, std::uint64_t to) const {
  const auto end = ends_.find({to, from});
  return end != ends_.end() && end->second.given_up;
}

bool SharedLines::GiveUpOne(RandomStream* random) {
  std::vector<Ends> waiting;
  for (const auto& [ends, connection] : ends_) {
    connection.peer->ReleaseCopied();
    const bool is_whole = !connection.given_up && ends_.contains({ends.second, ends.first});
    if (is_whole && connection.peer->oldest_reference() != 0) waiting.push_back(ends);
  }
  if (waiting.empty()) return false;
  const Ends chosen = waiting[random->Below(waiting.size())];
  ends_.erase(chosen);
  ends_[{chosen.second, chosen.first}].given_up = true;
  return true;
}

void SharedLines::End(std::uint64_t node) {
  std::erase_if(ends_, [node](const auto& entry) { return entry.first.first == node; });
  processes_.erase(node);
}

void SharedLines::Tend(Instant now, const std::function<bool(std::uint64_t node)>& lives) {
  std::vector<std::uint64_t> dead;
  for (const auto& [node, process] : processes_) {
    if (!lives(node)) dead.push_back(node);
  }
  for (std::uint64_t node : dead) End(node);
  for (auto& [ends, connection] : ends_) {
    if (!connection.ended && !ends_.contains({ends.second, ends.first})) connection.ended = now;
  }
  std::erase_if(ends_, [now](const auto& entry) { return entry.second.ended && now - *entry.second.ended > kKeptFor; });
}

}  // namespace capstan::sim
