#include "worker/device/nccl_group.h"

#include <cstring>
#include <string>
#include <utility>

#include "common/data/encoding.h"
#include "worker/device/nccl_communicator.h"

namespace capstan::train {
namespace {

using collective::Deadline;
using collective::DeviceArray;
using collective::DeviceGroup;
using collective::DeviceGroupOptions;
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
      : nccl_(std::move(nccl)), communicator_(context, nccl_, std::move(member)) {}

  int rank() const override { return communicator_.member().rank; }
  int size() const override { return communicator_.member().size; }

  Result<Ticket> SubmitAllReduce(const DeviceArray& data, Deadline deadline) override {
    return Submit("an all-reduce", data, deadline, [this, data](ncclComm_t comm) {
      return nccl_->AllReduce(data.data, data.data, data.count, TypeOf(data.numbers), ncclSum, comm, stream());
    });
  }
  Result<Ticket> SubmitGather(const DeviceArray& mine, void* all, int root, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(CheckRoot(root));
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

  Status OrderAfter(Ticket ticket, CUstream_st* stream) override { return communicator_.OrderAfter(ticket, stream); }
  Status Wait(Ticket ticket) override { return communicator_.Wait(ticket); }
  Status Wait(Ticket ticket, Deadline until) override { return communicator_.Wait(ticket, until); }
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

  Status CheckRoot(int root) const {
    if (root >= 0 && root < size()) return {};
    return Invalid("a gather at rank " + std::to_string(root) + " in a group of " + std::to_string(size()) +
                   "; give one from 0 to " + std::to_string(size() - 1));
  }

  const std::shared_ptr<const Nccl> nccl_;
  NcclCommunicator communicator_;
};

// What each rank sends to the others before the group is formed. Rank 0 chooses the id; the others' ids are unused.
struct NcclOffer {
  std::uint64_t generation = 0;
  std::int64_t version = 0;
  ncclUniqueId id = {};
};

// Returns the offer's bytes. A rank without an offer sends an empty text, so that the others do not wait for it.
std::string BytesOf(const Result<NcclOffer>& offer) {
  return offer.ok() ? std::string(reinterpret_cast<const char*>(&*offer), sizeof(NcclOffer)) : std::string();
}

Result<NcclOffer> MakeOffer(const Nccl& nccl, const DeviceGroupOptions& options) {
  NcclOffer offer{.generation = options.generation, .version = nccl.version};
  if (options.rank != 0) return offer;
  if (const ncclResult_t result = nccl.GetUniqueId(&offer.id); result != ncclSuccess) {
    return Unreachable("NCCL gives no id for a group: " + std::string(nccl.GetErrorString(result)) + " (" +
                       nccl.GetLastError(nullptr) + "); see whether its network interface can be used");
  }
  return offer;
}

std::string NameOf(const DeviceGroupOptions& options, std::size_t rank) {
  return collective::NamesOf(collective::RankSet().set(rank), options.name_of);
}

Status CheckOffer(const NcclOffer& offer, const NcclOffer& mine, const std::string& name) {
  if (offer.generation != mine.generation) {
    return {Code::kStale, name + " forms a group of generation " + std::to_string(offer.generation) +
                              ", this rank one of " + std::to_string(mine.generation) +
                              "; form it again when all have heard of the newer one"};
  }
  if (offer.version != mine.version) {
    return Unsupported(name + " has NCCL " + kernels::NcclVersionText(static_cast<int>(offer.version)) +
                       ", this rank has " + kernels::NcclVersionText(static_cast<int>(mine.version)) +
                       "; install the same on both");
  }
  return {};
}

// Returns rank 0's id, once all ranks are there and have matching offers.
Result<ncclUniqueId> Meet(const Nccl& nccl, const DeviceGroupOptions& options, collective::Rendezvous* rendezvous,
                          Deadline deadline) {
  const Result<NcclOffer> mine = MakeOffer(nccl, options);
  const Result<std::vector<std::string>> exchanged = rendezvous->Exchange(options.rank, BytesOf(mine), deadline);
  CAPSTAN_RETURN_IF_ERROR(mine.status());
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> offers, exchanged);
  if (offers.size() != static_cast<std::size_t>(options.size)) {
    return Invalid("a rendezvous of " + std::to_string(offers.size()) + " ranks for a group of " +
                   std::to_string(options.size));
  }
  NcclOffer first;
  for (std::size_t rank = offers.size(); rank-- > 0;) {
    if (offers[rank].size() != sizeof(NcclOffer)) {
      return Invalid(NameOf(options, rank) +
                     " does not form a group on devices, for which it has a reason of its own; start all from one " +
                     "build, for one job");
    }
    std::memcpy(&first, offers[rank].data(), sizeof(NcclOffer));
    CAPSTAN_RETURN_IF_ERROR(CheckOffer(first, *mine, NameOf(options, rank)));
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
