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

// Returns each way's median bandwidth. The ways take turns, so that other load on the machine affects all of them.
Result<std::array<double, kWays>> Medians(Ranks* ranks, std::size_t bytes, const AllReduceOptions& options) {
  std::array<std::vector<double>, kWays> samples;
  std::array<int, kWays> rounds{};
  for (int i = -1; i < options.repetitions; ++i) {
    for (std::size_t way = 0; way < kWays; ++way) {
      const int count = i < 0 ? 1 : rounds[way];
      CAPSTAN_ASSIGN_OR_RETURN(const double rate, ranks->Measure(static_cast<Way>(way), bytes, count));
      if (i >= 0) samples[way].push_back(rate);
      // The first measurement finds how many rounds fill options.seconds.
      if (i < 0) rounds[way] = std::clamp(int(options.seconds * rate * 1e9 / static_cast<double>(bytes)), 1, 20000);
    }
  }
  std::array<double, kWays> medians{};
  for (std::size_t way = 0; way < kWays; ++way) {
    std::sort(samples[way].begin(), samples[way].end());
    medians[way] = samples[way][samples[way].size() / 2];
  }
  return medians;
}

Figure FigureOf(std::string name, double value, double limit, std::string limit_name) {
  return {std::move(name), value, "GB/s", limit, std::move(limit_name), value / limit};
}

}  // namespace

Result<std::vector<Figure>> MeasureAllReduce(const AllReduceOptions& options) {
  CAPSTAN_RETURN_IF_ERROR(CheckGloo());
  std::vector<Figure> figures;
  std::string others;
  for (const int processes : options.processes) {
    std::unique_ptr<Ranks> ranks;
    for (const std::size_t bytes : options.bytes) {
      const std::string name = "allreduce/" + std::to_string(processes) + "p/" + SizeName(bytes);
      if (name.find(options.parts.only) == std::string::npos) {
        others += " " + name;
        continue;
      }
      if (!ranks) {
        CAPSTAN_ASSIGN_OR_RETURN(ranks, Ranks::Start(processes, options.chunk_bytes));
      }
      CAPSTAN_ASSIGN_OR_RETURN(const auto medians, Medians(ranks.get(), bytes, options));
      for (const Figure& figure : {FigureOf(name, medians[0], medians[1], "Gloo's own ring, chunked"),
                                   FigureOf(name + "/raw", medians[0], medians[2], "plain sockets around the ring"),
                                   FigureOf(name + "/secure", medians[3], medians[0], "the same ring over Gloo")}) {
        if (options.parts.measured) options.parts.measured(figure);
        figures.push_back(figure);
      }
    }
  }
  if (figures.empty()) return Invalid("no figure has \"" + options.parts.only + "\" in its name; there are" + others);
  return figures;
}

}  // namespace capstan::bench
