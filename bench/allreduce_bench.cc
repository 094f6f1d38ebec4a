#include "bench/allreduce_bench.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "bench/bench_folder.h"
#include "bench/gloo_allreduce.h"
#include "bench/pipe_rendezvous.h"
#include "bench/raw_ring.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/group.h"
#include "worker/collective/secure_mesh.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;
using collective::Deadline;

enum class Way : int { kOurs = 0, kGloo = 1, kRaw = 2, kSecure = 3 };
constexpr int kWays = 4;
constexpr std::chrono::seconds kPatience{60};

// One rank, in its own process. It connects once for each Way, then runs what the lines of the parent process ask for.
// A line is: way, bytes, rounds.
class Rank {
 public:
  static Status Run(Channel& parent, int rank, int size, const std::string& folder, std::size_t chunk_bytes) {
    signal(SIGPIPE, SIG_IGN);
    Rank self;
    PipeRendezvous rendezvous(&parent);
    collective::GroupOptions group_options;
    if (chunk_bytes != 0) group_options.chunk_bytes = chunk_bytes;
    const auto connect = [&](collective::CreateMesh create) -> Result<std::unique_ptr<collective::Group>> {
      CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<collective::Mesh> mesh,
                               create({rank, size, "127.0.0.1", {}}, &rendezvous, Clock::now() + kPatience));
      return CreateGroup(std::move(mesh), group_options);
    };
    CAPSTAN_ASSIGN_OR_RETURN(self.group_, connect(collective::CreateGlooMesh));
    CAPSTAN_ASSIGN_OR_RETURN(self.secure_, connect(collective::CreateSecureMesh));
    CAPSTAN_RETURN_IF_ERROR(self.raw_.Connect(rank, size, &rendezvous));
    CAPSTAN_ASSIGN_OR_RETURN(self.gloo_, ConnectGlooAllReduce(rank, size, folder));
    for (;;) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string line, parent.Receive(std::chrono::hours(1)));
      int way = 0, rounds = 0;
      std::size_t bytes = 0;
      std::istringstream(line) >> way >> bytes >> rounds;
      CAPSTAN_ASSIGN_OR_RETURN(const double seconds, self.Time(static_cast<Way>(way), bytes, rounds));
      parent.Send(std::to_string(seconds * 1e9));
    }
  }

 private:
  Result<double> Time(Way way, std::size_t bytes, int rounds) {
    if (data_.size() * sizeof(float) < bytes) data_.resize(bytes / sizeof(float));
    CAPSTAN_RETURN_IF_ERROR(Once(way, bytes));  // a first round warms up pages and buffers
    CAPSTAN_RETURN_IF_ERROR(group_->Barrier(Clock::now() + kPatience));
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < rounds; ++i) CAPSTAN_RETURN_IF_ERROR(Once(way, bytes));
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Status Once(Way way, std::size_t bytes) {
    const std::span<float> data = std::span(data_).first(bytes / sizeof(float));
    const auto size = static_cast<std::size_t>(group_->size());
    switch (way) {
      case Way::kOurs: return group_->AllReduce(data, Clock::now() + kPatience);
      case Way::kGloo: return gloo_(data);
      case Way::kSecure: return secure_->AllReduce(data, Clock::now() + kPatience);
      case Way::kRaw: return raw_.Transfer(2 * (size - 1) * bytes / size);
    }
    return {};
  }

  std::unique_ptr<collective::Group> group_, secure_;
  PlainAllReduce gloo_;
  RawRing raw_;
  std::vector<float> data_;
};

// The processes of all ranks.
class Ranks {
 public:
  static Result<std::unique_ptr<Ranks>> Start(int processes, std::size_t chunk_bytes) {
    auto ranks = std::make_unique<Ranks>();
    const std::string& folder = ranks->folder_.path();
    for (int rank = 0; rank < processes; ++rank) {
      ranks->children_.push_back(
          ChildProcess::Fork([&](Channel& parent) { return Rank::Run(parent, rank, processes, folder, chunk_bytes); }));
    }
    CAPSTAN_RETURN_IF_ERROR(Introduce(&ranks->children_));  // for the group
    CAPSTAN_RETURN_IF_ERROR(Introduce(&ranks->children_));  // for the encrypted group
    CAPSTAN_RETURN_IF_ERROR(Introduce(&ranks->children_));  // for the plain ring
    return ranks;
  }
  // Returns the bus bandwidth in GB/s.
  Result<double> Measure(Way way, std::size_t bytes, int rounds) {
    const std::string line =
        std::to_string(static_cast<int>(way)) + " " + std::to_string(bytes) + " " + std::to_string(rounds);
    for (ChildProcess& child : children_) child.channel().Send(line);
    double slowest = 0.0;  // in nanoseconds
    for (ChildProcess& child : children_) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string answer, child.channel().Receive());
      slowest = std::max(slowest, std::stod(answer));
    }
    const auto size = static_cast<double>(children_.size());
    return 2.0 * (size - 1.0) / size * static_cast<double>(bytes) * rounds / slowest;
  }

 private:
  std::vector<ChildProcess> children_;
  BenchFolder folder_;
};

std::string SizeName(std::size_t bytes) {
  return bytes >= 1u << 20 ? std::to_string(bytes >> 20) + "-mib" : std::to_string(bytes >> 10) + "-kib";
}

// The processes that all sizes of one number of processes share. They start when they are first needed.
struct LazyRanks {
  int processes = 0;
  std::size_t chunk_bytes = 0;
  std::unique_ptr<Ranks> running;
};

// Measures one size in all ways. The first measurement of a way also finds how many repetitions fill `seconds`.
class SizeMeasurer {
 public:
  SizeMeasurer(std::shared_ptr<LazyRanks> ranks, std::size_t bytes, double seconds)
      : ranks_(std::move(ranks)), bytes_(bytes), seconds_(seconds) {}

  Result<Readings> Measure(Way way) {
    if (!ranks_->running) {
      CAPSTAN_ASSIGN_OR_RETURN(ranks_->running, Ranks::Start(ranks_->processes, ranks_->chunk_bytes));
    }
    int& repetitions = repetitions_[static_cast<std::size_t>(way)];
    if (repetitions == 0) {
      CAPSTAN_ASSIGN_OR_RETURN(const double rate, ranks_->running->Measure(way, bytes_, 1));
      repetitions = std::clamp(int(seconds_ * rate * 1e9 / static_cast<double>(bytes_)), 1, 20000);
    }
    CAPSTAN_ASSIGN_OR_RETURN(const double rate, ranks_->running->Measure(way, bytes_, repetitions));
    return Readings{rate};
  }

 private:
  std::shared_ptr<LazyRanks> ranks_;
  std::size_t bytes_;
  double seconds_;
  std::array<int, kWays> repetitions_{};
};

Row RowOf(std::string name, Way value, Way limit, std::string limit_name) {
  const auto ours = static_cast<std::size_t>(value), theirs = static_cast<std::size_t>(limit);
  return {.name = std::move(name),
          .unit = "GB/s",
          .limit_name = std::move(limit_name),
          .needs = {ours, theirs},
          .sample = [=](const std::vector<Readings>& readings) {
            return Sample{readings[ours][0], readings[theirs][0]};
          }};
}

RowGroup GroupOf(const std::shared_ptr<LazyRanks>& ranks, std::size_t bytes, const AllReduceOptions& options) {
  const std::string name = "allreduce/" + std::to_string(ranks->processes) + "p/" + SizeName(bytes);
  const auto measurer = std::make_shared<SizeMeasurer>(ranks, bytes, options.seconds);
  RowGroup group;
  for (int way = 0; way < kWays; ++way) {
    group.measurements.push_back([=] { return measurer->Measure(static_cast<Way>(way)); });
  }
  group.rows = {RowOf(name, Way::kOurs, Way::kGloo, "Gloo's own ring, chunked"),
                RowOf(name + "/raw", Way::kOurs, Way::kRaw, "plain sockets around the ring"),
                RowOf(name + "/secure", Way::kSecure, Way::kOurs, "the same ring over Gloo")};
  return group;
}

}  // namespace

Result<Plan> PlanAllReduce(const AllReduceOptions& options) {
  CAPSTAN_RETURN_IF_ERROR(CheckGloo());
  Plan plan;
  plan.rounds = options.rounds;
  for (const int processes : options.processes) {
    const auto ranks = std::make_shared<LazyRanks>(LazyRanks{processes, options.chunk_bytes, nullptr});
    for (const std::size_t bytes : options.bytes) plan.groups.push_back(GroupOf(ranks, bytes, options));
  }
  return plan;
}

}  // namespace capstan::bench
