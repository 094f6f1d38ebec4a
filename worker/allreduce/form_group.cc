#include "worker/allreduce/form_group.h"

#include <algorithm>
#include <utility>

#include "common/wire/messages/group.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/in_process_mesh.h"
#include "worker/collective/rendezvous.h"

namespace capstan::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMeetMax = std::chrono::seconds(15);
// Time limit for sending the whole version to all members: kShareLeast, plus a second for every kShareBytes bytes.
constexpr auto kShareLeast = std::chrono::minutes(10);
constexpr std::size_t kShareBytes = std::size_t{1} << 20;

constexpr char kHas = '+', kHasNot = '-';  // prefix of an address: whether that worker has the version

// Exchanges addresses through the coordinator.
class OfferedAddresses : public collective::Rendezvous {
 public:
  explicit OfferedAddresses(const GroupOptions& options) : options_(options) {}

  Result<std::vector<std::string>> Exchange(int, std::string bytes, collective::Deadline deadline) override {
    bytes.insert(bytes.begin(), options_.has_version ? kHas : kHasNot);
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> all, options_.exchange(std::move(bytes), deadline));
    for (std::string& one : all) {
      if (one.empty()) return Invalid("a worker offered no address");
      has_version_.push_back(one.front() == kHas);
      one.erase(one.begin());
    }
    return all;
  }
  const std::vector<bool>& has_version() const { return has_version_; }  // by rank, once exchanged

 private:
  const GroupOptions& options_;
  std::vector<bool> has_version_;
};

Result<std::shared_ptr<collective::Mesh>> Connect(const GroupOptions& options, OfferedAddresses* addresses) {
  const int size = static_cast<int>(options.members.size());
  const collective::Deadline deadline = Clock::now() + kMeetMax;
  if (size == 1) {
    CAPSTAN_RETURN_IF_ERROR(addresses->Exchange(0, "", deadline).status());
    return collective::CreateInProcessMeshes(1).front();
  }
  const auto name_of = [members = options.members](int rank) { return members[static_cast<std::size_t>(rank)].worker; };
  return collective::CreateGlooMesh({options.rank, size, options.host, name_of, options.silence}, addresses, deadline);
}

constexpr auto kAskEvery = std::chrono::milliseconds(20);

// Checks meanwhile whether the generation is over, because the member that sends the version may be lost silently.
Status Await(const GroupOptions& options, collective::CollectiveThread* group,
             collective::CollectiveThread::Ticket ticket) {
  for (;;) {
    const Status status = group->Wait(ticket, Clock::now() + kAskEvery);
    if (status.code() != Code::kBusy) return status;
    CAPSTAN_RETURN_IF_ERROR(options.look_up());
  }
}

Status ShareVersion(const GroupOptions& options, const std::vector<bool>& has_version,
                    collective::CollectiveThread* group, Replica* replica) {
  if (std::find(has_version.begin(), has_version.end(), false) == has_version.end()) return {};
  const auto source = std::find(has_version.begin(), has_version.end(), true);
  const collective::Deadline deadline =
      Clock::now() + ShareMax(replica->array_count() * replica->array(0).size_bytes());
  int root = 0;
  if (source != has_version.end()) {
    root = static_cast<int>(source - has_version.begin());
  } else if (!options.shards_have_it) {
    return Corrupt("no worker has version " + std::to_string(options.version.value) + " any more");
  } else if (options.rank == root) {
    CAPSTAN_RETURN_IF_ERROR(options.read(deadline));
  }
  for (std::size_t i = 0; i < replica->array_count(); ++i) {
    const auto broadcast = [array = replica->array(i), root, deadline](collective::Group& members) {
      return members.Broadcast(array, root, deadline);
    };
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->Submit(broadcast));
    CAPSTAN_RETURN_IF_ERROR(Await(options, group, ticket));
  }
  if (!options.has_version) replica->Filled();
  return {};
}

}  // namespace

std::chrono::seconds ShareMax(std::size_t bytes) { return kShareLeast + std::chrono::seconds(bytes / kShareBytes); }

Result<std::unique_ptr<collective::CollectiveThread>> FormGroup(const GroupOptions& options, Replica* replica) {
  OfferedAddresses addresses(options);
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<collective::Mesh> mesh, Connect(options, &addresses));
  collective::GroupOptions group_options;
  group_options.wire = options.wire;
  auto group = std::make_unique<collective::CollectiveThread>(collective::CreateGroup(std::move(mesh), group_options),
                                                              options.buckets + 1);
  if (Status status = ShareVersion(options, addresses.has_version(), group.get(), replica); !status.ok()) {
    group->Abort();  // so that other members do not wait for this one
    return status;
  }
  return group;
}

}  // namespace capstan::train
