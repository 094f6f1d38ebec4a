// How a shard gets the versions that workers compute, in mode allreduce: only the retained ones, block by block, as
// part of the step that makes them. All workers upload the same bits; the first copy of each array counts.
#include "common/base/hash.h"
#include "common/wire/messages/assign.h"
#include "server/shard/shard.h"

namespace capstan::server {

Status Shard::CheckMade(const Assign& assign, const Slice& payload) const {
  const std::string block = "block " + std::to_string(assign.block);
  const auto local = context_.local_of.find(assign.block);
  if (local == context_.local_of.end())
    return Invalid(block + " is not on shard " + std::to_string(context_.options.shard));
  if (!context_.served.parameters.keep) {
    return Invalid(block + " of the version that step " + std::to_string(context_.step().value) +
                   " makes is not to be kept");
  }
  if (assign.array >= context_.store->array_count()) {
    return Invalid(block + ", array " + std::to_string(assign.array) + ": the job's optimizer keeps " +
                   std::to_string(context_.store->array_count() - 1) + " besides the weights");
  }
  const std::size_t wanted = context_.store->count(local->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (Hash64(payload.bytes()) != assign.payload_hash) return Corrupt(block + ": an array does not match its hash");
  return {};
}

void Shard::OnMade(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out) {
  if (assign.step > context_.step())
    return context_.Refuse(from, Code::kBusy, "ahead of this shard", out, assign.block);
  if (assign.step < context_.step()) {  // the shard already has that version
    acknowledgements_.AddUpload(from, assign.step, assign.block);
    return;
  }
  if (Status status = CheckMade(assign, payload); !status.ok()) {
    (status.code() == Code::kCorrupt ? context_.metrics->pushes_corrupt : context_.metrics->pushes_invalid).Add(1);
    return context_.Refuse(from, status.code(), status.message(), out, assign.block);
  }
  const std::size_t local = context_.local_of[assign.block];
  if (!progress_[local].prepared && !context_.store->PutNext(local, assign.array, payload.bytes())) return;
  acknowledgements_.AddUpload(from, assign.step, assign.block);
  if (std::exchange(progress_[local].prepared, true)) return;
  MoveWindow();
  PrepareStepWhenComplete(now, out);
}

void Shard::NoteHeld() {
  if (context_.served.parameters.held)
    context_.served.blocks = {context_.served.version, context_.served.parameters.updates};
}

// Whether the step has all its blocks. Where workers update, blocks arrive only for retained versions.
bool Shard::BlocksComplete() const {
  return lowest_incomplete_ == progress_.size() ||
         (WorkersUpdate(context_.options.mode) && !context_.served.parameters.keep);
}

}  // namespace capstan::server
