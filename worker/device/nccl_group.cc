#include "worker/device/nccl_group.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/data/encoding.h"
#include "worker/collective/group.h"
#include "worker/device/nccl_communicator.h"

namespace capstan::train {
namespace {

using collective::Deadline;
using collective::DeviceArray;
using collective::DeviceGroup;
using collective::DeviceGroupOptions;
using collective::Part;
using collective::PartOf;
using kernels::Nccl;

ncclDataType_t TypeOf(Encoding numbers) {
  switch (numbers) {
    case Encoding::kFp32: return ncclFloat32;
    case Encoding::kBf16: return ncclBfloat16;
    case Encoding::kFp16: return ncclFloat16;
  }
  return ncclFloat32;
}

std::byte* At(const DeviceArray& data, std::size_t element) {
  return static_cast<std::byte*>(data.data) + element * BytesPerNumber(data.numbers);
}

std::string TextOf(const char* call, const DeviceArray& data) {
  return std::string(call) + " of " + std::to_string(data.count) + " " + NameOf(data.numbers) + " numbers";
}

class NcclGroup final : public DeviceGroup {
 public:
  using Ticket = DeviceGroup::Ticket;

  NcclGroup(kernels::CudaContext& context, std::shared_ptr<const Nccl> nccl, NcclMember member)
      : context_(context),
        nccl_(std::move(nccl)),
        word_(context.Allocate(sizeof(float))),
        communicator_(context, nccl_, std::move(member)) {}

  int rank() const override { return communicator_.member().rank; }
  int size() const override { return communicator_.member().size; }

  Result<Ticket> SubmitAllReduce(const DeviceArray& data, Deadline deadline) override {
    return Submit("an all-reduce", data, deadline, [this, data](ncclComm_t comm) {
      return nccl_->AllReduce(data.data, data.data, data.count, TypeOf(data.numbers), ncclSum, comm, stream());
    });
  }
  Result<Ticket> SubmitReduceScatter(const DeviceArray& data, Deadline deadline) override {
    return Submit("a reduce-scatter", data, deadline, [this, data](ncclComm_t comm) {
      const auto ranks = static_cast<std::size_t>(size());
      const Part mine = PartOf(data.count, size(), rank());
      if (data.count % ranks == 0) {
        return nccl_->ReduceScatter(data.data, At(data, mine.begin), mine.count, TypeOf(data.numbers), ncclSum, comm,
                                    stream());
      }
      return ForParts(data, [&](int owner, const Part& part) {
        return Reduce(comm, {At(data, part.begin), part.count, data.numbers}, owner);
      });
    });
  }
  Result<Ticket> SubmitAllGather(const DeviceArray& data, Deadline deadline) override {
    return Submit("an all-gather", data, deadline, [this, data](ncclComm_t comm) {
      const auto ranks = static_cast<std::size_t>(size());
      const Part mine = PartOf(data.count, size(), rank());
      if (data.count % ranks == 0) {
        return nccl_->AllGather(At(data, mine.begin), data.data, mine.count, TypeOf(data.numbers), comm, stream());
      }
      return ForParts(data, [&](int owner, const Part& part) {
        return Broadcast(comm, {At(data, part.begin), part.count, data.numbers}, owner);
      });
    });
  }
  Result<Ticket> SubmitBroadcast(const DeviceArray& data, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Broadcast", root));
    return Submit("a broadcast", data, deadline,
                  [this, data, root](ncclComm_t comm) { return Broadcast(comm, data, root); });
  }
  Result<Ticket> SubmitReduce(const DeviceArray& data, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Reduce", root));
    return Submit("a reduce", data, deadline, [this, data, root](ncclComm_t comm) { return Reduce(comm, data, root); });
  }
  Result<Ticket> SubmitGather(const DeviceArray& mine, void* all, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Gather", root));
    if (rank() != root) {
      return Submit("a gather", mine, deadline, [this, mine, root](ncclComm_t comm) {
        return nccl_->Send(mine.data, mine.count, TypeOf(mine.numbers), root, comm, stream());
      });
    }
    const auto place_of = [mine, all](int rank) {
      return At({all, mine.count, mine.numbers}, static_cast<std::size_t>(rank) * mine.count);
    };
    const auto receive = [this, mine, place_of](ncclComm_t comm) {
      return ForRanks([&](int from) {
        if (from == rank()) return ncclSuccess;
        return nccl_->Recv(place_of(from), mine.count, TypeOf(mine.numbers), from, comm, stream());
      });
    };
    void* const own = place_of(root);
    const std::size_t bytes = own == mine.data ? 0 : mine.count * BytesPerNumber(mine.numbers);
    return Submit("a gather", mine, deadline, receive, {own, mine.data, bytes});
  }
  // Submits an all-reduce of one word, whose value is ignored.
  Result<Ticket> SubmitBarrier(Deadline deadline) override {
    return communicator_.Submit("a barrier", deadline, [this](ncclComm_t comm) {
      return nccl_->AllReduce(word_.get(), word_.get(), 1, ncclFloat32, ncclSum, comm, stream());
    });
  }

  Status OrderAfter(Ticket ticket, CUstream_st* stream) override { return communicator_.OrderAfter(ticket, stream); }
  Status Wait(Ticket ticket) override { return communicator_.Wait(ticket); }
  Status Wait(Ticket ticket, Deadline until) override { return communicator_.Wait(ticket, until); }
  Result<std::unique_ptr<DeviceGroup>> Split(const std::vector<int>& ranks, Deadline deadline) override;
  void Abort() override { communicator_.Abort(); }

  Status Form(const ncclUniqueId& id, Deadline deadline) { return communicator_.Form(id, deadline); }

 private:
  cudaStream_t stream() const { return communicator_.stream(); }

  // Submits a call. If it has no elements, NCCL is not called.
  template <class Enqueue>
  Result<Ticket> Submit(const char* call, const DeviceArray& data, Deadline deadline, const Enqueue& enqueue,
                        const NcclCopy& copy = {}) {
    return communicator_.Submit(
        TextOf(call, data), deadline, [&](ncclComm_t comm) { return data.count == 0 ? ncclSuccess : enqueue(comm); },
        copy);
  }
  ncclResult_t Broadcast(ncclComm_t comm, const DeviceArray& data, int root) {
    return nccl_->Broadcast(data.data, data.data, data.count, TypeOf(data.numbers), root, comm, stream());
  }
  ncclResult_t Reduce(ncclComm_t comm, const DeviceArray& data, int root) {
    void* const to = root == rank() ? data.data : nullptr;
    return nccl_->Reduce(data.data, to, data.count, TypeOf(data.numbers), ncclSum, root, comm, stream());
  }
  // Makes a call for the parts of all ranks. NCCL supports only parts of equal size, so parts of different sizes take
  // one call each, in one group of calls.
  template <class CallOf>
  ncclResult_t ForParts(const DeviceArray& data, const CallOf& call_of) {
    return ForRanks([&](int owner) {
      const Part part = PartOf(data.count, size(), owner);
      return part.count == 0 ? ncclSuccess : call_of(owner, part);
    });
  }
  // Makes one call per rank, in one group of calls.
  template <class CallOf>
  ncclResult_t ForRanks(const CallOf& call_of) {
    ncclResult_t result = nccl_->GroupStart();
    for (int rank = 0; rank < size(); ++rank) {
      if (result == ncclSuccess || result == ncclInProgress) result = call_of(rank);
    }
    const ncclResult_t end = nccl_->GroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
  }

  Status CheckRank(const char* call, int rank) const {
    if (rank >= 0 && rank < size()) return {};
    return Invalid(std::string(call) + " with rank " + std::to_string(rank) + " in a group of " +
                   std::to_string(size()) + "; give one from 0 to " + std::to_string(size() - 1));
  }
  Status CheckSplit(const std::vector<int>& ranks) const;

  kernels::CudaContext& context_;
  const std::shared_ptr<const Nccl> nccl_;
  const kernels::CudaContext::Memory word_;
  NcclCommunicator communicator_;
  bool is_part_ = false;
};

Status NcclGroup::CheckSplit(const std::vector<int>& ranks) const {
  if (is_part_) return Invalid("Split of a group that was split off; split the group of all ranks");
  if (ranks.empty()) return Invalid("Split into a group of no ranks; name at least one");
  for (const int rank : ranks) {
    CAPSTAN_RETURN_IF_ERROR(CheckRank("Split", rank));
    if (std::count(ranks.begin(), ranks.end(), rank) > 1) {
      return Invalid("Split names rank " + std::to_string(rank) + " more than once");
    }
  }
  return {};
}

Result<std::unique_ptr<DeviceGroup>> NcclGroup::Split(const std::vector<int>& ranks, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(CheckSplit(ranks));
  const Ticket last = communicator_.submitted();
  if (last > 0) CAPSTAN_RETURN_IF_ERROR(Wait(last));
  const auto place = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  const bool is_in = place < static_cast<int>(ranks.size());
  CAPSTAN_ASSIGN_OR_RETURN(ncclComm_t comm, communicator_.Split(is_in ? 0 : NCCL_SPLIT_NOCOLOR, place, deadline));
  if (!is_in) return std::unique_ptr<DeviceGroup>();
  const auto name_of = [ranks, of_all = communicator_.member().name_of](int rank) {
    const int of = ranks[static_cast<std::size_t>(rank)];
    return (of_all ? of_all(of) + ", " : std::string()) + "rank " + std::to_string(of) + " of all";
  };
  auto part = std::make_unique<NcclGroup>(context_, nccl_,
                                          NcclMember{place, static_cast<int>(ranks.size()), name_of,
                                                     communicator_.member().look_up, communicator_.member().watch});
  part->is_part_ = true;
  CAPSTAN_RETURN_IF_ERROR(part->communicator_.Adopt(comm, deadline));
  return std::unique_ptr<DeviceGroup>(std::move(part));
}

// The data that each rank sends to the others. Rank 0 chooses the id.
struct Card {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  ncclUniqueId id = {};
};

// Returns the card's bytes. A rank without a card sends an empty text, so that the others do not wait for it.
std::string BytesOf(const Result<Card>& card) {
  return card.ok() ? std::string(reinterpret_cast<const char*>(&*card), sizeof(Card)) : std::string();
}

Result<Card> MakeCard(const Nccl& nccl, const DeviceGroupOptions& options) {
  Card card{.generation = options.generation, .version = nccl.version};
  if (options.rank != 0) return card;
  if (const ncclResult_t result = nccl.GetUniqueId(&card.id); result != ncclSuccess) {
    return Unreachable("NCCL gives no id for a group: " + std::string(nccl.GetErrorString(result)) + " (" +
                       nccl.GetLastError(nullptr) + "); see whether its network interface can be used");
  }
  return card;
}

std::string NameOf(const DeviceGroupOptions& options, std::size_t rank) {
  return collective::NamesOf(collective::RankSet().set(rank), options.name_of);
}

Status CheckCard(const Card& card, const Card& mine, const std::string& name) {
  if (card.generation != mine.generation) {
    return {Code::kStale, name + " forms a group of generation " + std::to_string(card.generation) +
                              ", this rank one of " + std::to_string(mine.generation) +
                              "; form it anew when all have heard of the newer one"};
  }
  if (card.version != mine.version) {
    return Unsupported(name + " has NCCL " + kernels::NcclVersionText(static_cast<int>(card.version)) +
                       ", this rank has " + kernels::NcclVersionText(static_cast<int>(mine.version)) +
                       "; install the same on both");
  }
  return {};
}

// Returns rank 0's id, once all ranks are there and have matching cards.
Result<ncclUniqueId> Meet(const Nccl& nccl, const DeviceGroupOptions& options, collective::Rendezvous* rendezvous,
                          Deadline deadline) {
  const Result<Card> mine = MakeCard(nccl, options);
  const Result<std::vector<std::string>> exchanged = rendezvous->Exchange(options.rank, BytesOf(mine), deadline);
  CAPSTAN_RETURN_IF_ERROR(mine.status());
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> cards, exchanged);
  if (cards.size() != static_cast<std::size_t>(options.size)) {
    return Invalid("a rendezvous of " + std::to_string(cards.size()) + " ranks for a group of " +
                   std::to_string(options.size));
  }
  Card first;
  for (std::size_t rank = cards.size(); rank-- > 0;) {
    if (cards[rank].size() != sizeof(Card)) {
      return Invalid(NameOf(options, rank) +
                     " does not form a group on devices, for which it has a reason of its own; start all from one " +
                     "build, for one job");
    }
    std::memcpy(&first, cards[rank].data(), sizeof(Card));
    CAPSTAN_RETURN_IF_ERROR(CheckCard(first, *mine, NameOf(options, rank)));
  }
  return first.id;
}

}  // namespace

Result<std::string> FindNccl(const kernels::LibrarySearch& libraries) {
  CAPSTAN_ASSIGN_OR_RETURN(const Nccl nccl, kernels::OpenNccl(libraries));
  return "NCCL " + kernels::NcclVersionText(nccl.version);
}

Result<std::unique_ptr<DeviceGroup>> CreateNcclGroup(kernels::CudaContext& context, const DeviceGroupOptions& options,
                                                     collective::Rendezvous* rendezvous, Deadline deadline) {
  if (options.size < 1 || options.size > collective::kRanksMax || options.rank < 0 || options.rank >= options.size) {
    return Invalid("rank " + std::to_string(options.rank) + " of a group of " + std::to_string(options.size) +
                   "; there are 1 to " + std::to_string(collective::kRanksMax) + " ranks, counted from 0");
  }
  CAPSTAN_ASSIGN_OR_RETURN(Nccl found, kernels::OpenNccl(options.libraries));
  auto nccl = std::make_shared<const Nccl>(std::move(found));
  CAPSTAN_ASSIGN_OR_RETURN(const ncclUniqueId id, Meet(*nccl, options, rendezvous, deadline));
  auto group = std::make_unique<NcclGroup>(
      context, std::move(nccl),
      NcclMember{options.rank, options.size, options.name_of, options.look_up, options.watch});
  CAPSTAN_RETURN_IF_ERROR(group->Form(id, deadline));
  return std::unique_ptr<DeviceGroup>(std::move(group));
}

}  // namespace capstan::train
