// sim: runs simulated jobs by hand.
//
//   sim --seed N                 runs the job of that seed and prints its outcome
//   sim --seed N --trace         with every event on a line
//   sim --seed N --runs M        M jobs from that seed on; lists the seeds that fail, exits with 1 if any do, and
//                                prints a hash of all messages and weights, to compare two builds that should behave
//                                alike
//   sim --mutant NAME --runs M   with a broken rule: prints the first seed that shows it, and how; exits with 1 if
//                                none does
//   sim --mutants --runs M       all mutants, as the table of MUTANTS.md
//   sim --mutant... --caught F   tries the runs listed in F first, and writes the runs that show a mutant back to F
//   sim ... --async              mode async; --bounded: mode bounded
//   sim ... --allreduce          mode allreduce: the workers update the weights
//   sim ... --async --durable    and with durable acknowledgements
//   sim ... --local              one worker of each machine pushes for all
//   sim ... --external           the optimizer stays in the workers' programs
//   sim ... --median             the update takes the median of the slots' gradients
//   sim ... --shared             processes of one machine, which read payloads in each other's memory
//   sim ... --old [--steps S]    a job of many steps (S), with spare workers and low limits
//   sim ... --slow-lines         a job over slow lines
//   sim ... --edition E          with the faults that edition E of the simulator had, to repeat a seed recorded with it
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/mutant_search.h"
#include "tests/sim/seed_list.h"

namespace capstan::sim {
namespace {

struct Arguments {
  RunName first;
  std::uint64_t runs = 1;
  bool trace = false, mutants = false;
  std::string mutant, caught;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const auto number = [&] { return std::strtoull(argv[++i], nullptr, 10); };
    if (word == "--trace") {
      arguments->trace = true;
    } else if (word == "--async") {
      arguments->first.mode = Mode::kAsync;
    } else if (word == "--bounded") {
      arguments->first.mode = Mode::kBounded;
    } else if (word == "--allreduce") {
      arguments->first.mode = Mode::kAllReduce;
    } else if (word == "--durable") {
      arguments->first.durable = true;
    } else if (word == "--external") {
      arguments->first.external = true;
    } else if (word == "--local") {
      arguments->first.local = true;
    } else if (word == "--median") {
      arguments->first.median = true;
    } else if (word == "--shared") {
      arguments->first.shared = true;
    } else if (word == "--old") {
      arguments->first.old = true;
    } else if (word == "--slow-lines") {
      arguments->first.slow_lines = true;
    } else if (word == "--mutants") {
      arguments->mutants = true;
    } else if (value == nullptr) {
      return false;
    } else if (word == "--seed") {
      arguments->first.seed = number();
    } else if (word == "--steps") {
      arguments->first.old_steps = number();
    } else if (word == "--runs") {
      arguments->runs = number();
    } else if (word == "--edition") {
      arguments->first.edition = static_cast<int>(number());
    } else if (word == "--mutant") {
      arguments->mutant = argv[++i];
    } else if (word == "--caught") {
      arguments->caught = argv[++i];
    } else {
      return false;
    }
  }
  const RunName& name = arguments->first;
  if (name.shared && (name.local || name.median || name.external || name.old || name.slow_lines)) return false;
  const Mode mode = arguments->first.mode;
  return !arguments->first.durable || mode == Mode::kAsync || mode == Mode::kBounded;
}

int Complain(const Status& status) {
  std::fprintf(stderr, "sim: %s\n", status.message().c_str());
  return 2;
}

// Returns a run in which the mutant is noticed: the listed one if it still notices it, else the first one found.
std::optional<CaughtRun> CatchMutant(const Mutant& mutant, const Arguments& arguments,
                                     const std::vector<ListedRun>& listed) {
  const RunName* before = FindCaught(listed, mutant);
  std::optional<CaughtRun> caught;
  if (before != nullptr) caught = TryMutant(mutant, *before);
  return caught ? caught : SearchMutant(mutant, arguments.first, arguments.runs);
}

void PrintRow(const Mutant& mutant, const std::optional<CaughtRun>& caught) {
  const std::string seed = caught ? std::to_string(caught->name.seed) : "–";
  std::string how = caught ? caught->how.substr(0, caught->how.find_first_of(";(")) : "–";
  while (how.ends_with(' ')) how.pop_back();
  const std::string mode = NameOf(mutant.mode) + (mutant.durable ? ", durable" : "") + (mutant.old ? ", old" : "") +
                           (mutant.slow_lines ? ", slow lines" : "") + (mutant.local ? ", local" : "") +
                           (mutant.external ? ", external" : "") + (mutant.shared ? ", shared" : "");
  std::printf("| %s | %s | %s | %s | %s |\n", mutant.name.c_str(), mutant.broken.c_str(), mode.c_str(), seed.c_str(),
              how.c_str());
  std::fflush(stdout);
}

int TryMutants(const Arguments& arguments) {
  std::vector<ListedRun> listed, caught;
  if (!arguments.caught.empty()) {
    Result<std::vector<ListedRun>> read = ReadSeedList(arguments.caught);
    if (!read.ok()) return Complain(read.status());
    listed = std::move(read).value();
  }
  if (arguments.mutants) std::printf("| Mutant | Broken rule | Mode | Seed | Seen as |\n|---|---|---|---|---|\n");
  std::size_t missed = 0;
  for (const Mutant& mutant : Mutants()) {
    if (!arguments.mutants && mutant.name != arguments.mutant) {
      if (const RunName* before = FindCaught(listed, mutant)) caught.push_back({*before, mutant.name});
      continue;
    }
    const std::optional<CaughtRun> result = CatchMutant(mutant, arguments, listed);
    PrintRow(mutant, result);
    if (result) caught.push_back({result->name, mutant.name});
    missed += result ? 0 : 1;
  }
  std::printf("\n%zu not caught within %llu seeds\n", missed, static_cast<unsigned long long>(arguments.runs));
  if (!arguments.caught.empty()) {
    if (const Status status = WriteSeedList(arguments.caught, caught); !status.ok()) return Complain(status);
  }
  return missed == 0 ? 0 : 1;
}

int TrySeeds(const Arguments& arguments) {
  Judge judge;
  std::uint64_t failed = 0;
  const auto start = std::chrono::steady_clock::now();
  const Mutant* mutant = FindMutant(arguments.mutant);
  RunName name = arguments.first;
  for (std::uint64_t i = 0; i < arguments.runs; ++i, ++name.seed) {
    if (arguments.runs == 1) std::printf("%s\n", Describe(OptionsOf(name)).c_str());
    std::function<void(const std::string&)> trace;
    if (arguments.trace) trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    const std::string problem = judge.Try(name, mutant, std::move(trace));
    if (problem.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(name.seed), problem.c_str());
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  PrintCounts(judge);
  std::printf("events %016llx\n", static_cast<unsigned long long>(judge.events_hash()));
  std::printf("%llu runs, %llu failed, %.0f runs/s\n", static_cast<unsigned long long>(arguments.runs),
              static_cast<unsigned long long>(failed), static_cast<double>(arguments.runs) / seconds);
  return failed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "usage: sim [--seed N] [--runs M] [--trace] [--async | --bounded | --allreduce] [--local | --median | "
                 "--external | --shared] "
                 "[--old [--steps S] | --slow-lines] [--durable, with --async or --bounded] [--edition E] [--mutant "
                 "NAME | --mutants] [--caught FILE]\n");
    return 2;
  }
  if (!arguments.mutant.empty() && FindMutant(arguments.mutant) == nullptr) {
    std::fprintf(stderr, "there is no mutant \"%s\"; these are:\n", arguments.mutant.c_str());
    for (const Mutant& mutant : Mutants()) std::fprintf(stderr, "  %s\n", mutant.name.c_str());
    return 2;
  }
  const bool many = !arguments.mutant.empty() && (arguments.runs > 1 || !arguments.caught.empty());
  return arguments.mutants || many ? TryMutants(arguments) : TrySeeds(arguments);
}

}  // namespace
}  // namespace capstan::sim

int main(int argc, char** argv) { return capstan::sim::Main(argc, argv); }
