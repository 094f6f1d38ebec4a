#include "common/base/hash.h"
#include "worker/collective/chain.h"

namespace capstan::collective {
namespace {

enum class Kind : std::uint64_t { kAllReduce, kAllGather, kBroadcast, kReduce, kGather, kBarrier };

struct What {
  Kind kind;
  std::size_t count;
  int root;
};

// 24 bits for the call's number, 16 for a hash of its kind and arguments, 20 for the message's number. If members make
// different calls, their tags do not match, and the calls time out.
Tag TagOf(std::uint64_t call, const What& what, const GroupOptions& options) {
  const std::uint64_t numbers[] = {static_cast<std::uint64_t>(what.kind), what.count,
                                   static_cast<std::uint64_t>(what.root), static_cast<std::uint64_t>(options.wire),
                                   options.chunk_bytes};
  const std::uint64_t hash = Hash64(std::as_bytes(std::span(numbers))) & 0xFFFF;
  return (call & 0xFFFFFF) << 36 | hash << 20;
}

class RingGroup : public Group {
 public:
  RingGroup(std::shared_ptr<Mesh> mesh, const GroupOptions& options)
      : mesh_(std::move(mesh)), members_{mesh_->size(), mesh_->rank()}, options_(options), lanes_(mesh_.get()) {}

  int rank() const override { return members_.me; }
  int size() const override { return members_.size; }
  void Abort() override { mesh_->Abort(); }
  Status failure() const override { return mesh_->failure(); }
  std::uint64_t bytes_sent() const override { return lanes_.bytes_sent(); }

  Status AllReduce(std::span<float> data, Deadline deadline) override {
    return Ring(Kind::kAllReduce, RingHalves::kBoth, data, deadline);
  }
  Status AllGather(std::span<float> data, Deadline deadline) override {
    return Ring(Kind::kAllGather, RingHalves::kAllGather, data, deadline);
  }
  Status Broadcast(std::span<float> data, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Broadcast", root));
    return Call({Kind::kBroadcast, data.size(), root}, deadline,
                [&](Tag tag) { return RunBroadcast(&lanes_, members_, options_, tag, root, data); });
  }
  Status Reduce(std::span<float> data, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Reduce", root));
    return Call({Kind::kReduce, data.size(), root}, deadline,
                [&](Tag tag) { return RunReduce(&lanes_, members_, options_, tag, root, data); });
  }
  Status Gather(std::span<const float> mine, int root, std::span<float> all, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Gather", root));
    const std::size_t needed = mine.size() * static_cast<std::size_t>(size());
    if (root == members_.me && all.size() != needed) {
      return Invalid("Gather of " + std::to_string(mine.size()) + " elements from each of " + std::to_string(size()) +
                     " ranks into " + std::to_string(all.size()) + "; give room for " + std::to_string(needed));
    }
    return Call({Kind::kGather, mine.size(), root}, deadline,
                [&](Tag tag) { return RunGather(&lanes_, members_, tag, root, mine, all); });
  }
  Status Barrier(Deadline deadline) override {
    return Call({Kind::kBarrier, 0, 0}, deadline, [&](Tag tag) { return RunBarrier(&lanes_, members_, tag); });
  }

 private:
  template <class Run>
  Status Call(const What& what, Deadline deadline, const Run& run) {
    CAPSTAN_RETURN_IF_ERROR(mesh_->failure());
    const std::uint64_t call = mesh_->Enter(deadline);
    const Status status = run(TagOf(call, what, options_));
    mesh_->Leave();
    return status;
  }
  Status Ring(Kind kind, RingHalves halves, std::span<float> data, Deadline deadline) {
    return Call({kind, data.size(), 0}, deadline,
                [&](Tag tag) { return RunRing(&lanes_, members_, options_, tag, halves, data); });
  }
  Status CheckRank(const char* call, int rank) const {
    if (rank >= 0 && rank < size()) return {};
    return Invalid(std::string(call) + " with rank " + std::to_string(rank) + " in a group of " +
                   std::to_string(size()) + "; give one from 0 to " + std::to_string(size() - 1));
  }

  const std::shared_ptr<Mesh> mesh_;
  const Members members_;
  const GroupOptions options_;
  TransferLanes lanes_;
};

}  // namespace

std::unique_ptr<Group> CreateGroup(std::shared_ptr<Mesh> mesh, const GroupOptions& options) {
  return std::make_unique<RingGroup>(std::move(mesh), options);
}

}  // namespace capstan::collective
