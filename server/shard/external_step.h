// ExternalStep: the step engine of mode sync where the optimizer stays in the program. A step makes the mean gradient,
// and workers upload the weights of a version that is to be kept.
//
// Kind:   owned by the Shard.
// Fails:  kInvalid: an upload that does not fit. kCorrupt: it does not match its hash. kBusy: it is of a later version.
// Why:    the servers cannot compute the weights, and every worker can. So the version that a step makes is the mean
//         gradient (ShardContext::gradients), and the blocks in the store are those of the newest version that a worker
//         uploaded. A step whose version is to be in a snapshot is not reported before that version is here.
#pragma once

#include <vector>

#include "server/shard/sync_step.h"

namespace capstan::server {

class ExternalStep final : public SyncStep {
 public:
  using SyncStep::Handle;
  using SyncStep::SyncStep;

  void Reset() override;
  bool takes_uploads() const override { return true; }
  // Takes an array of a block of the published version, with the weights of block 0 also the program's state. Of copies
  // the first one counts.
  void Handle(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out) override;
  CommitOutcome Handle(const Commit& commit) override;
  bool awaits_uploads() const override;

  PullAdmission Admit(const Pull& pull) const override;
  BlockVersion VersionOf(std::size_t index, std::uint32_t array) const override;
  bool HasBlocksOf(Version version, std::uint32_t array) const override;
  bool CanPin(Version version) const override;

 private:
  bool AreBlocksComplete() const override { return SyncStep::AreBlocksComplete() && !awaits_uploads(); }
  Status CheckUpload(const UploadBlock& upload, const Slice& payload) const;
  // Begins to wait for uploads of the published version.
  void BeginUploads();
  void NoteUploaded();

  std::vector<bool> uploaded_;  // by index in the store: all arrays of the published version are here
  bool has_state_ = false;      // the program's state has come with block 0 of that version
  std::size_t missing_ = 0;     // how many blocks of the published version are not
};

}  // namespace capstan::server
