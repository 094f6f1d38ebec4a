// ReplicatedStep: a step of mode allreduce: workers compute the new version, and upload its blocks if shards are to
// have it.
//
// Kind:   owned by the Shard.
// Fails:  kInvalid, kCorrupt: an upload that does not fit. kBusy: it is of a step that this shard has not reached.
// Why:    all workers upload the same bits, so the first copy of each array counts. Reports and commits are those of
//         SyncStep.
#pragma once

#include "server/shard/sync_step.h"

namespace capstan::server {

class ReplicatedStep final : public SyncStep {
 public:
  using SyncStep::Handle;
  using SyncStep::SyncStep;

  bool CanGoOn() const override { return true; }
  bool Handle(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out) override;
  PullAdmission Admit(const Pull& pull) const override;
  bool HasBlocksOf(Version version) const override { return version == shard().served.blocks.version; }

 private:
  // Whether all blocks have arrived. Also true for versions that workers do not upload.
  bool AreBlocksComplete() const override;
  // Publishes the uploaded blocks even if the step is skipped: workers have then uploaded the old version again.
  void PublishBlocks(StepAction action) override;
  void AddSamples(std::vector<std::uint64_t>*) const override {}
  Status CheckUpload(const UploadBlock& upload, const Slice& payload) const;
};

}  // namespace capstan::server
