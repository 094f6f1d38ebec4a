// Collectives: calls that all members of a team of workers make together: all-reduce, all-gather, broadcast.
//
// Kind:   part of a Client, and used by its thread.
// Limits: a member gives at most kBytesMax in a call; a team has at most kRanksMax members.
// Fails:  kTimeout: the members named by the message have not made the call; the same call, made again, goes on.
//         kUnreachable: a member is lost, and kInvalid: the members' calls differ; both end the team, and every later
//         call fails in the same way until FormTeam succeeds. kStale: the team, or the job, is over.
// Why:    the bytes meet at the coordinator, so members need no connections to each other. Values are added in the
//         order of the ranks: the bits of a result depend on neither timing nor restarts.
//
// All members make the same calls in the same order. A restarted server or coordinator changes no result. A process
// that is restarted is a new member: the others' calls fail, and all form another team.
#pragma once

#include <capstan/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace capstan {

enum class NumberType : std::uint8_t { kFloat32, kFloat64, kFloat16, kBfloat16, kInt32, kInt64, kUint8 };
enum class Reduction : std::uint8_t { kSum, kMean, kMin, kMax, kProduct };

struct TeamPlace {
  std::uint32_t rank = 0;  // from 0
  std::uint32_t ranks = 0;
};

class [[gnu::visibility("default")]] Collectives {
 public:
  static constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  static constexpr std::uint32_t kRanksMax = 128;

  using Deadline = std::chrono::steady_clock::time_point;

  virtual ~Collectives() = default;

  // Joins the next team. With a place, the team has `ranks` members, and this one has this rank. Without, the team is
  // of all current workers, at least cluster.min_workers; members of the team before keep their order, and others
  // follow in the order of their names. Call it after Declare. The team before is over for this member.
  virtual Result<TeamPlace> FormTeam(std::optional<TeamPlace> place, Deadline deadline) = 0;
  // Returns the place in the present team; nullopt: there is none.
  virtual std::optional<TeamPlace> place() const = 0;
  // Returns how many processes wait for another team, as far as is known; it waits for nothing.
  virtual std::uint32_t WaitingForTeam() = 0;

  // Replaces `values`, `count` numbers of one type, by those of all ranks reduced, number by number, in the order of
  // the ranks. 16-bit numbers are added as float32 and rounded once. kMean divides the sum by the number of ranks; it
  // is kInvalid for integers. The sum of integers wraps around.
  virtual Status AllReduce(void* values, std::uint64_t count, NumberType type, Reduction reduction,
                           Deadline deadline) = 0;
  // Sends `bytes` bytes at `given` to all members, and receives theirs, of any sizes. `what`: the call in words, the
  // same for all members, at most 256 bytes; it may say the type of the bytes.
  virtual Status AllGather(const void* given, std::uint64_t bytes, std::string_view what, Deadline deadline) = 0;
  // Returns the bytes that `rank` has given to the last AllGather; valid until the next call.
  struct Bytes {
    const std::byte* data = nullptr;
    std::uint64_t size = 0;
  };
  virtual Bytes Gathered(std::uint32_t rank) const = 0;
  // Replaces `values`, `bytes` bytes in every member, by those of rank `root`.
  virtual Status Broadcast(void* values, std::uint64_t bytes, std::uint32_t root, Deadline deadline) = 0;
};

}  // namespace capstan
