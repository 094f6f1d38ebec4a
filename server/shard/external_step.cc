#include "server/shard/external_step.h"

#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/upload_block.h"
#include "server/shard/acknowledgements.h"

namespace capstan::server {

void ExternalStep::Reset() {
  SyncStep::Reset();
  uploaded_.assign(shard().store->size(), true);  // the generation begins with blocks of its first version
  missing_ = 0;
}

StepEngine::CommitOutcome ExternalStep::Handle(const Commit& commit) {
  const CommitOutcome outcome = SyncStep::Handle(commit);
  if (outcome == CommitOutcome::kPublished) BeginUploads();
  return outcome;
}

void ExternalStep::BeginUploads() {
  shard().store->DropPrepared();  // what has come of the version before
  served()->parameters.on_shards = false;
  served()->parameters.program_state.clear();
  uploaded_.assign(shard().store->size(), false);
  has_state_ = false;
  missing_ = uploaded_.size();
  if (missing_ == 0) NoteUploaded();
}

void ExternalStep::NoteUploaded() {
  shard().store->PublishPrepared();
  ServedStep& step = *served();
  step.parameters.on_shards = true;
  step.blocks = {step.version, step.parameters.updates, step.parameters.program_state};
}

bool ExternalStep::awaits_uploads() const {
  const StepParameters& parameters = shard().served.parameters;
  return (parameters.snapshot || parameters.stop) && !parameters.on_shards;
}

Status ExternalStep::CheckUpload(const UploadBlock& upload, const Slice& payload) const {
  const BlockStore& store = *shard().store;
  const std::string block = "block " + std::to_string(upload.block);
  const auto index = shard().index_of.find(upload.block);
  if (index == shard().index_of.end()) return Invalid(block + " is not on " + shard().name());
  if (upload.array >= store.array_count()) {
    return Invalid(block + ", array " + std::to_string(upload.array) + ": the job keeps " +
                   std::to_string(store.array_count() - 1) + " besides the weights (optimizer.states)");
  }
  const std::size_t wanted = store.count(index->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (!upload.program_state.empty() && (upload.block != 0 || upload.array != 0)) {
    return Invalid(block + ", array " + std::to_string(upload.array) +
                   ": the program's state comes with the weights of block 0");
  }
  if (Hash64(payload.bytes()) != upload.payload_hash) return Corrupt(block + ": an array does not match its hash");
  return {};
}

void ExternalStep::Handle(PeerId from, const UploadBlock& upload, const Slice& payload, Instant, Outbox* out) {
  const Step step = shard().step();
  if (upload.step > step) return shard().Refuse(from, Code::kBusy, "ahead of this shard", out, upload.block);
  if (upload.step < step) return acknowledgements()->AddUpload(from, upload.step, upload.block);  // nobody needs it
  if (const Status status = CheckUpload(upload, payload); !status.ok()) {
    return shard().Reject(from, status, upload.block, out);
  }
  const std::size_t index = shard().index_of.at(upload.block);
  if (!uploaded_[index]) {
    if (!upload.program_state.empty() && !std::exchange(has_state_, true)) {
      served()->parameters.program_state = upload.program_state;  // the first copy counts, as of the arrays
    }
    if (!shard().store->PutNext(index, upload.array, payload.bytes())) return;
    uploaded_[index] = true;
    if (--missing_ == 0) NoteUploaded();
  }
  acknowledgements()->AddUpload(from, upload.step, upload.block);
}

// ---- what pulls get ------------------------------------------------------------------------------------------------

PullAdmission ExternalStep::Admit(const Pull& pull) const {
  if (pull.array == kMeanGradient || pull.blocks.empty()) return SyncStep::Admit(pull);
  if (HasBlocksOf(pull.version, pull.array)) return PullAdmission::kAnswer;
  // The version that is published now may still be uploaded.
  return pull.version == shard().served.version ? PullAdmission::kPark : SyncStep::Admit(pull);
}

StepEngine::BlockVersion ExternalStep::VersionOf(std::size_t index, std::uint32_t array) const {
  if (array == kMeanGradient) return {shard().served.version, shard().served.parameters.updates};
  return SyncStep::VersionOf(index, array);
}

bool ExternalStep::HasBlocksOf(Version version, std::uint32_t array) const {
  return version == (array == kMeanGradient ? shard().served.version : shard().served.blocks.version);
}

bool ExternalStep::CanPin(Version version) const {
  return version < shard().served.version || (version == shard().served.version && shard().served.parameters.on_shards);
}

}  // namespace capstan::server
