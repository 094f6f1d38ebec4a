#include "server/shard/acknowledgements.h"

#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/staged_runs.h"
#include "server/shard/shard_context.h"

namespace capstan::server {

Acknowledgements::Acknowledgements() = default;
Acknowledgements::~Acknowledgements() = default;

Staged& Acknowledgements::For(PeerId peer, Step step) {
  std::unique_ptr<Staged>& ack = pushes_[{peer, step}];
  if (ack == nullptr) ack = std::make_unique<Staged>();
  ack->step = step;
  return *ack;
}

void Acknowledgements::AddPush(PeerId peer, Step step, BlockIndex block, Node node) {
  For(peer, step).nodes.push_back({block, node});
}

void Acknowledgements::OfferCredit(Step step, std::uint32_t credit) {
  for (const auto& [peer, sent] : sent_credit_) {
    if (sent < credit) For(peer, step);
  }
}

void Acknowledgements::EachFull(const std::function<void(Step, Staged*)>& fill) {
  for (auto& [key, ack] : pushes_) {
    if (ack->full) fill(key.second, ack.get());
  }
}

void Acknowledgements::Send(const ShardContext& shard, std::uint32_t credit, bool steps_pass, Outbox* out) {
  // UploadAcks go first. If a Staged answers a worker's question, the worker takes uploads as lost that it sent before
  // the question and that have no UploadAck by then.
  for (auto& [key, blocks] : uploads_) {
    out->Send(key.first, UploadAck{shard.generation, shard.options.incarnation, shard.options.shard, std::move(blocks),
                                   key.second});
  }
  uploads_.clear();
  for (auto& [key, ack] : pushes_) {
    ack->generation = shard.generation;
    ack->incarnation = shard.options.incarnation;
    ack->shard = shard.options.shard;
    ack->passed = steps_pass && key.second < shard.step();
    ack->present = shard.step();
    ack->credit = credit;
    if (ack->full) ArrangeToFit(&ack->nodes);
    if (const auto sent = sent_credit_.find(key.first); sent != sent_credit_.end()) sent->second = credit;
    out->Send(key.first, std::move(*ack));
  }
  pushes_.clear();
}

void Acknowledgements::Reset() {
  pushes_.clear();
  uploads_.clear();
  sent_credit_.clear();
}

}  // namespace capstan::server
