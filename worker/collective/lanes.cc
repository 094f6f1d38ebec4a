#include "worker/collective/lanes.h"

namespace capstan::collective {

TransferLanes::TransferLanes(Mesh* mesh) {
  for (Lane& lane : sends_) lane.transfer = mesh->CreateTransfer();
  for (Lane& lane : receives_) lane.transfer = mesh->CreateTransfer();
}

Status TransferLanes::Send(std::size_t item, int to, Tag tag, std::span<const std::byte> bytes) {
  Lane& lane = sends_[item % kLanes];
  CAPSTAN_RETURN_IF_ERROR(Wait(&lane));
  CAPSTAN_RETURN_IF_ERROR(lane.transfer->Send(to, tag, bytes));
  lane.busy = true;
  bytes_sent_ += bytes.size();
  return {};
}

Status TransferLanes::Receive(std::size_t item, int from, Tag tag, std::span<std::byte> bytes) {
  Lane& lane = receives_[item % kLanes];
  CAPSTAN_RETURN_IF_ERROR(Wait(&lane));
  CAPSTAN_RETURN_IF_ERROR(lane.transfer->Receive(from, tag, bytes));
  lane.busy = true;
  return {};
}

Status TransferLanes::WaitAllSent() {
  for (Lane& lane : sends_) CAPSTAN_RETURN_IF_ERROR(Wait(&lane));
  return {};
}

Status TransferLanes::Wait(Lane* lane) {
  if (!lane->busy) return {};
  lane->busy = false;
  return lane->transfer->Wait();
}

std::span<std::byte> TransferLanes::Memory(Lane* lane, std::size_t bytes) {
  if (lane->memory.size() < bytes) lane->memory.resize(bytes);
  return std::span(lane->memory).first(bytes);
}

}  // namespace capstan::collective
