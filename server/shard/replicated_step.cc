#include "server/shard/replicated_step.h"

#include <string>

#include "common/base/hash.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/upload_block.h"
#include "server/shard/acknowledgements.h"

namespace capstan::server {

bool ReplicatedStep::AreBlocksComplete() const {
  return SyncStep::AreBlocksComplete() || !shard().served.parameters.upload_next;
}

void ReplicatedStep::PublishBlocks(StepAction) { shard().store->PublishPrepared(); }

PullAdmission ReplicatedStep::Admit(const Pull& pull) const {
  if (!pull.blocks.empty() && HasBlocksOf(pull.version, pull.array)) return PullAdmission::kAnswer;
  return SyncStep::Admit(pull);
}

Status ReplicatedStep::CheckUpload(const UploadBlock& upload, const Slice& payload) const {
  const BlockStore& store = *shard().store;
  const std::string block = "block " + std::to_string(upload.block);
  const auto index = shard().index_of.find(upload.block);
  if (index == shard().index_of.end()) return Invalid(block + " is not on " + shard().name());
  if (!shard().served.parameters.upload_next) {
    return Invalid(block + " of the version that step " + std::to_string(shard().step().value) +
                   " makes is not to be kept");
  }
  if (upload.array >= store.array_count()) {
    return Invalid(block + ", array " + std::to_string(upload.array) + ": the job's optimizer keeps " +
                   std::to_string(store.array_count() - 1) + " besides the weights");
  }
  const std::size_t wanted = store.count(index->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (Hash64(payload.bytes()) != upload.payload_hash) return Corrupt(block + ": an array does not match its hash");
  return {};
}

void ReplicatedStep::Handle(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out) {
  const Step step = shard().step();
  if (upload.step > step) return shard().Refuse(from, Code::kBusy, "ahead of this shard", out, upload.block);
  if (upload.step < step) {  // the shard already has that version
    return acknowledgements()->AddUpload(from, upload.step, upload.block);
  }
  if (const Status status = CheckUpload(upload, payload); !status.ok()) {
    return shard().Reject(from, status, upload.block, out);
  }
  const std::size_t index = shard().index_of.at(upload.block);
  if (!is_prepared(index) && !shard().store->PutNext(index, upload.array, payload.bytes())) return;
  acknowledgements()->AddUpload(from, upload.step, upload.block);
  if (is_prepared(index)) return;
  MarkPrepared(index);
  ReportWhenComplete(now, out);
}

}  // namespace capstan::server
