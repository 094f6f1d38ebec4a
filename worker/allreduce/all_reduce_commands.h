// Commands of AllReduceCore to its owner, which has the connections, the replica's arrays and the session.
//
// Kind:   values. The owner carries them out in order. It reports a command that fails with AllReduceCore::Fail, and
//         drops the rest of the list. "Call X" below names the core's function for the command's result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::train {

// ---- forming a group

// Report this worker's state to the coordinator.
struct ReportGroup {
  Generation generation;
  GroupState state = GroupState::kNone;
  std::string text;
};
// The version that the replica has built becomes its present one.
struct PublishVersion {};
// Make an address for the other members, and call OfferAddress.
struct Meet {
  std::vector<GroupMember> members;  // by rank; without addresses
  int rank = 0;
  Instant deadline{};  // of meeting and connecting together
};
// Connect to all members, and call Connected.
struct ConnectMembers {
  std::vector<std::string> addresses;  // by rank
};
// Fill the replica with this version from the shards, and call VersionRead. If the job has another version or
// generation, fail with kStale.
struct ReadVersion {
  Version version;
  Generation generation;
  Instant deadline{};
};
// Send the replica's arrays from `root` to all members, and call VersionShared.
struct ShareVersion {
  int root = 0;
  bool receives = false;  // this worker's arrays were filled, by the root or from the shards
  Instant deadline{};
};
// Find out with all members whether their devices can reduce, and call DevicesFormed.
struct FormDevices {
  std::vector<GroupMember> members;
  int rank = 0;
  Generation generation;
};
// Close the connections to the members.
struct EndGroup {
  bool abort = false;  // end collectives in which other members may still wait
};
// Tell the user.
struct Notify {
  std::string text;
};

// ---- a step

// What a slot's gradient, times its samples, does to the sum of the round's gradients. kNone: the slot has no samples.
enum class SumUse : std::uint8_t { kNone, kReplace, kAdd };
// The slot's gradient is about to be computed.
struct OpenSlot {
  std::uint64_t samples = 0;
  SumUse use = SumUse::kNone;
  bool zero = false;  // the sum becomes zero: no slot of the round has samples
};
// Begin to add up the number of samples over all members.
struct ReduceSamples {
  std::uint64_t samples = 0;
};
// Begin to add up a bucket over all members.
struct ReduceBucket {
  std::size_t bucket = 0;
};
// Wait for the number of samples, and call SamplesReduced.
struct AwaitSamples {};
// Wait for the bucket, and call BucketReduced.
struct AwaitBucket {
  std::size_t bucket = 0;
};
// Begin to build the next version in the replica.
struct BeginUpdate {
  StepParameters parameters;
  std::uint64_t samples = 0;
};
// Compute the next version of the bucket's blocks.
struct UpdateBucket {
  std::size_t bucket = 0;
};
// Let the replica decide whether the step is applied or skipped, and call VersionBuilt.
struct FinishUpdate {
  Step step;
};
// Upload these blocks of the version that was built.
struct UploadBlocks {
  StepAction action = StepAction::kApply;
  std::vector<BlockIndex> blocks;
};
// Report a slot's end to its shard.
struct ReportSlot {
  SlotReport report;
};

using AllReduceCommand =
    std::variant<ReportGroup, PublishVersion, Meet, ConnectMembers, ReadVersion, ShareVersion, FormDevices, EndGroup,
                 Notify, OpenSlot, ReduceSamples, ReduceBucket, AwaitSamples, AwaitBucket, BeginUpdate, UpdateBucket,
                 FinishUpdate, UploadBlocks, ReportSlot>;
using AllReduceCommands = std::vector<AllReduceCommand>;

}  // namespace capstan::train
