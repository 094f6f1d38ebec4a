#include "worker/collective/in_process_mesh.h"

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "common/base/mailbox.h"
#include "worker/collective/mesh_failure.h"

namespace capstan::collective {
namespace {

struct Posted {
  const std::byte* from = nullptr;  // source of a send
  std::byte* to = nullptr;          // destination of a receive
  std::size_t size = 0;
  bool done = true;
};

struct Hub {
  std::array<std::uint64_t, kRanksMax> calls{};  // collectives that each rank has begun
  // Messages whose sender or receiver has come and waits for the other side, by from, to, tag and size. A send and a
  // receive of different sizes never match.
  std::map<std::tuple<int, int, Tag, std::size_t>, Posted*> waiting;
  std::optional<MeshFailure> cause;

  void End(const MeshFailure& why) {
    if (!cause) cause = why;
    waiting.clear();
  }
};
using SharedHub = std::shared_ptr<Guarded<Hub>>;

class InProcessMesh : public Mesh {
 public:
  InProcessMesh(SharedHub hub, int rank, int size, NameOfRank name_of)
      : hub_(std::move(hub)), rank_(rank), size_(size), name_of_(std::move(name_of)) {}
  ~InProcessMesh() override = default;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Transfer> CreateTransfer() override;
  std::uint64_t Enter(Deadline deadline) override {
    deadline_ = deadline;
    return hub_->With([&](Hub& hub) { return ++hub.calls[static_cast<std::size_t>(rank_)]; });
  }
  void Leave() override {}
  void Abort() override { End(Reason::kAborted, rank_); }
  Status failure() override {
    return hub_->With([this](Hub& hub) { return FailureIn(hub); });
  }

  Status Begin(int from, int to, Tag tag, Posted* message) {
    return hub_->Change([&](Hub& hub) {
      if (hub.cause) return FailureIn(hub);
      message->done = false;
      const auto [place, is_first] = hub.waiting.try_emplace({from, to, tag, message->size}, message);
      if (!is_first) {
        Posted* const other = place->second;
        std::memcpy(message->to ? message->to : other->to, message->to ? other->from : message->from, message->size);
        other->done = message->done = true;
        hub.waiting.erase(place);
      }
      return Status();
    });
  }

  Status Await(int peer, const Posted& message) {
    hub_->AwaitUntil(deadline_, [&](Hub& hub) { return message.done || hub.cause; });
    return hub_->Change([&](Hub& hub) {
      if (message.done) return Status();
      if (!hub.cause) hub.End(FailureOn(hub, peer));
      return FailureIn(hub);
    });
  }

  void End(Reason reason, int missing) {
    hub_->Change([&](Hub& hub) { hub.End({reason, RankSet().set(static_cast<std::size_t>(missing))}); });
  }

 private:
  // The deadline has passed while waiting for `peer`: ranks that have begun fewer calls are missing.
  MeshFailure FailureOn(const Hub& hub, int peer) const {
    const auto calls = [&](int rank) { return hub.calls[static_cast<std::size_t>(rank)]; };
    RankSet absent;
    for (int rank = 0; rank < size_; ++rank) absent.set(static_cast<std::size_t>(rank), calls(rank) < calls(rank_));
    if (absent.any()) return {Reason::kAbsent, absent};
    return {Reason::kStalled, RankSet().set(static_cast<std::size_t>(peer))};
  }
  Status FailureIn(const Hub& hub) const { return hub.cause ? StatusOf(*hub.cause, name_of_) : Status(); }

  const SharedHub hub_;
  const int rank_;
  const int size_;
  const NameOfRank name_of_;
  Deadline deadline_{};  // used by the group's thread only
};

class InProcessTransfer : public Transfer {
 public:
  explicit InProcessTransfer(InProcessMesh* mesh) : mesh_(mesh) {}

  Status Send(int to, Tag tag, std::span<const std::byte> bytes) override {
    message_ = {bytes.data(), nullptr, bytes.size()};
    peer_ = to;
    return mesh_->Begin(mesh_->rank(), to, tag, &message_);
  }
  Status Receive(int from, Tag tag, std::span<std::byte> bytes) override {
    message_ = {nullptr, bytes.data(), bytes.size()};
    peer_ = from;
    return mesh_->Begin(from, mesh_->rank(), tag, &message_);
  }
  Status Wait() override { return mesh_->Await(peer_, message_); }

 private:
  InProcessMesh* const mesh_;
  int peer_ = 0;
  Posted message_;
};

std::unique_ptr<Transfer> InProcessMesh::CreateTransfer() { return std::make_unique<InProcessTransfer>(this); }

}  // namespace

std::vector<std::shared_ptr<Mesh>> CreateInProcessMeshes(int size, const NameOfRank& name_of) {
  CAPSTAN_CHECK(size >= 1 && size <= kRanksMax);
  const auto hub = std::make_shared<Guarded<Hub>>();
  std::vector<std::shared_ptr<Mesh>> meshes;
  for (int rank = 0; rank < size; ++rank) {
    meshes.push_back(std::make_shared<InProcessMesh>(hub, rank, size, name_of));
  }
  return meshes;
}

}  // namespace capstan::collective
