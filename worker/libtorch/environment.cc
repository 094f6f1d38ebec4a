#include "worker/libtorch/environment.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/base/name.h"

namespace capstan::libtorch {

namespace {

// The variables by which a launcher numbers its processes.
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* sign;  // is set in the launcher's own processes only
};

// The first one whose variables are set counts: torchrun may itself be started by srun.
constexpr std::array kLaunchers = {
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "RANK"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    Launcher{"PMI", "PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    // A batch script has SLURM_PROCID too; only what srun starts is a step.
    Launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
};

std::string Variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

struct Place {
  std::uint32_t rank = 0, ranks = 0;
};

std::optional<std::uint32_t> Number(const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<Place> PlaceOf(const char* rank, const char* ranks, const char* launcher) {
  const auto given = Number(Variable(rank)), of = Number(Variable(ranks));
  if (given && of && *given < *of) return Place{*given, *of};
  return Invalid(std::string(rank) + " is \"" + Variable(rank) + "\" and " + ranks + " is \"" + Variable(ranks) +
                 "\": a number is counted from 0 and below their count; unset both, or set them as " + launcher +
                 " does");
}

Result<std::string> AddressOf(const ConnectOptions& options) {
  std::string address = options.coordinator.empty() ? Variable("CAPSTAN_COORDINATOR") : options.coordinator;
  if (!address.empty()) return address;
  if (!Variable("CAPSTAN_BROKER").empty()) {
    return Invalid(
        "capstan run makes the job of a PyTorch script, and this is a program of libtorch's: write a job file, and "
        "start "
        "capstan launch job.toml -- PROGRAM");
  }
  return Invalid(
      "no coordinator is named: set CAPSTAN_COORDINATOR to the address that capstan launch prints, or "
      "ConnectOptions::coordinator; nothing is trained without one");
}

std::string OwnName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = 0;
  return NameOfProcess(host[0] == 0 ? "worker" : host.data(), getpid());
}

// Gives the client the rank of torchrun, mpirun or srun, if one of them started the process and more than one.
Status TakeLaunchersRank(const ConnectOptions& options, Identity* identity) {
  for (const Launcher& launcher : kLaunchers) {
    if (Variable(launcher.sign).empty()) continue;
    CAPSTAN_ASSIGN_OR_RETURN(const Place place, PlaceOf(launcher.rank, launcher.ranks, launcher.name));
    if (place.ranks == 1) return {};  // perhaps a shell within srun, from which several processes are started by hand
    identity->client.rank = identity->number = place.rank;
    identity->client.ranks = place.ranks;
    if (options.on_notice) {
      options.on_notice("rank " + std::to_string(place.rank) + " of " + std::to_string(place.ranks) +
                        " is taken from " + launcher.rank + " and " + launcher.ranks + ", as " + launcher.name +
                        " sets them: this process computes slot " + std::to_string(place.rank) + " of each step");
    }
    return {};
  }
  return {};
}

}  // namespace

Result<Identity> IdentityOf(const ConnectOptions& options) {
  Identity identity;
  CAPSTAN_ASSIGN_OR_RETURN(identity.client.coordinator, AddressOf(options));
  identity.client.join_deadline = options.join_deadline;
  identity.client.on_notice = options.on_notice;
  identity.client.key_file = options.key_file.empty() ? Variable("CAPSTAN_KEY_FILE") : options.key_file;
  if (options.rank) {
    identity.client.rank = identity.number = options.rank;
    identity.client.ranks = options.ranks;
  } else if (!Variable("CAPSTAN_INDEX").empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const Place place, PlaceOf("CAPSTAN_INDEX", "CAPSTAN_INDEXES", "capstan launch"));
    identity.number = place.rank;
  } else {
    CAPSTAN_RETURN_IF_ERROR(TakeLaunchersRank(options, &identity));
  }
  std::string name = options.worker.empty() ? Variable("CAPSTAN_WORKER") : options.worker;
  if (name.empty()) name = identity.client.rank ? "rank-" + std::to_string(*identity.client.rank) : OwnName();
  identity.client.worker = std::move(name);
  return identity;
}

}  // namespace capstan::libtorch
