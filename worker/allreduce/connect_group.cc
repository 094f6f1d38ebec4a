#include "worker/allreduce/connect_group.h"

#include <utility>

#include "worker/collective/in_process_mesh.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAskEvery = std::chrono::milliseconds(20);

// Exchanges addresses by ConnectOptions::exchange, that is, through the coordinator.
class OfferedAddresses : public collective::Rendezvous {
 public:
  explicit OfferedAddresses(const ConnectOptions& options) : options_(options) {}

  Result<std::vector<std::string>> Exchange(int, std::string bytes, collective::Deadline) override {
    return options_.exchange(std::move(bytes));
  }

 private:
  const ConnectOptions& options_;
};

Result<std::shared_ptr<collective::Mesh>> Connect(const Meet& meet, const ConnectOptions& options) {
  const int size = static_cast<int>(meet.members.size());
  if (size == 1) {
    CAPSTAN_RETURN_IF_ERROR(options.exchange("").status());
    return collective::CreateInProcessMeshes(1).front();
  }
  const auto name_of = [members = meet.members](int rank) { return members[static_cast<std::size_t>(rank)].worker; };
  OfferedAddresses addresses(options);
  return options.create_mesh({meet.rank, size, options.host, name_of, options.silence}, &addresses,
                             collective::Deadline(meet.deadline));
}

Status Await(const std::function<Status()>& look_up, collective::CollectiveThread* group,
             collective::CollectiveThread::Ticket ticket) {
  for (;;) {
    const Status status = group->Wait(ticket, Clock::now() + kAskEvery);
    if (status.code() != Code::kBusy) return status;
    CAPSTAN_RETURN_IF_ERROR(look_up());
  }
}

}  // namespace

Result<std::unique_ptr<collective::CollectiveThread>> ConnectGroup(const Meet& meet, const ConnectOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<collective::Mesh> mesh, Connect(meet, options));
  collective::GroupOptions group_options;
  group_options.wire = options.wire;
  return std::make_unique<collective::CollectiveThread>(collective::CreateGroup(std::move(mesh), group_options),
                                                        options.buckets + 1);
}

Status ShareReplica(const ShareVersion& share, const std::function<Status()>& look_up,
                    collective::CollectiveThread* group, Replica* replica) {
  const collective::Deadline deadline(share.deadline);
  for (std::size_t i = 0; i < replica->array_count(); ++i) {
    const auto broadcast = [array = replica->array(i), root = share.root, deadline](collective::Group& members) {
      return members.Broadcast(array, root, deadline);
    };
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->Submit(broadcast));
    CAPSTAN_RETURN_IF_ERROR(Await(look_up, group, ticket));
  }
  if (share.receives) replica->Filled();
  return {};
}

}  // namespace capstan::train
