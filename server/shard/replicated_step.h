// ReplicatedStep: the step engine of mode allreduce. Workers compute each new version, and upload its blocks if the
// shards are to have that version.
//
// Kind:   owned by the Shard.
// Fails:  kInvalid: an upload that does not fit. kCorrupt: it does not match its hash. kBusy: it is of a later step.
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
  bool takes_pushes() const override { return false; }
  bool takes_uploads() const override { return true; }
  void Handle(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out) override;
  PullAdmission Admit(const Pull& pull) const override;
  bool HasBlocksOf(Version version, std::uint32_t) const override { return version == shard().served.blocks.version; }

 private:
  // Whether all blocks of the step's version have arrived; true if workers do not upload that version.
  bool AreBlocksComplete() const override;
  // Publishes the uploaded blocks even if the step is skipped: workers then upload the values of the version before.
  void PublishBlocks(StepAction action) override;
  void AddSamples(std::vector<std::uint64_t>*) const override {}
  Status CheckUpload(const UploadBlock& upload, const Slice& payload) const;
};

}  // namespace capstan::server
