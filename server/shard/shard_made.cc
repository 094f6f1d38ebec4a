// How a shard gets the versions that workers compute, in mode allreduce: only the retained ones, block by block, as
// part of the step that makes them. All workers upload the same bits; the first copy of each array counts.
#include "common/base/hash.h"
#include "common/wire/messages/assign.h"
#include "server/shard/shard.h"

namespace capstan::server {

Status Shard::CheckMade(const Assign& assign, const Slice& payload) const {
  const std::string block = "block " + std::to_string(assign.block);
  const auto local = local_of_.find(assign.block);
  if (local == local_of_.end()) return Invalid(block + " is not on shard " + std::to_string(options_.shard));
  if (!parameters_.keep) {
    return Invalid(block + " of the version that step " + std::to_string(step().value) + " makes is not to be kept");
  }
  if (assign.array >= store_->array_count()) {
    return Invalid(block + ", array " + std::to_string(assign.array) + ": the job's optimizer keeps " +
                   std::to_string(store_->array_count() - 1) + " besides the weights");
  }
  const std::size_t wanted = store_->count(local->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (Hash64(payload.bytes()) != assign.payload_hash) return Corrupt(block + ": an array does not match its hash");
  return {};
}

void Shard::OnMade(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out) {
  if (assign.step > step()) return Refuse(from, Code::kBusy, "ahead of this shard", out, assign.block);
  if (assign.step < step()) {  // the shard already has that version
    assigned_[{from, assign.step}].push_back(assign.block);
    return;
  }
  if (Status status = CheckMade(assign, payload); !status.ok()) {
    (status.code() == Code::kCorrupt ? metrics_->pushes_corrupt : metrics_->pushes_invalid).Add(1);
    return Refuse(from, status.code(), status.message(), out, assign.block);
  }
  const std::size_t local = local_of_[assign.block];
  if (!progress_[local].prepared && !store_->PutNext(local, assign.array, payload.bytes())) return;
  assigned_[{from, assign.step}].push_back(assign.block);
  if (std::exchange(progress_[local].prepared, true)) return;
  MoveWindow();
  PrepareStepWhenComplete(now, out);
}

void Shard::NoteHeld() {
  if (parameters_.held) held_ = {version_, parameters_.updates};
}

// Whether the step has all its blocks. Where workers update, blocks arrive only for retained versions.
bool Shard::BlocksComplete() const {
  return lowest_incomplete_ == progress_.size() || (WorkersUpdate(options_.mode) && !parameters_.keep);
}

}  // namespace capstan::server
