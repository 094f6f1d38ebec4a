// sim: simulated jobs by hand.
//
//   sim --seed N                 the job of that seed, and what came of it
//   sim --seed N --trace         with every event on a line
//   sim --seed N --runs M        M jobs from that seed on; names the seeds that fail, exits 1 if there are any
//   sim --mutant NAME --runs M   with a rule broken: the first seed that shows it, and how; exits 1 if none does
//   sim --mutants --runs M       all of them, as the table of MUTANTS.md
//   sim ... --async              without global steps; --bounded: with a bound on staleness
//   sim ... --allreduce          where workers update
//   sim ... --async --durable    and with acknowledgements of what is on disk
//   sim ... --local              where one worker of a machine pushes for all
//   sim ... --edition E          with what befell jobs then
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/judge.h"

namespace capstan::sim {
namespace {

struct Arguments {
  RunName first;
  std::uint64_t runs = 1;
  bool trace = false, mutants = false;
  std::string mutant;
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
    } else if (word == "--local") {
      arguments->first.local = true;
    } else if (word == "--mutants") {
      arguments->mutants = true;
    } else if (value == nullptr) {
      return false;
    } else if (word == "--seed") {
      arguments->first.seed = number();
    } else if (word == "--runs") {
      arguments->runs = number();
    } else if (word == "--edition") {
      arguments->first.edition = static_cast<int>(number());
    } else if (word == "--mutant") {
      arguments->mutant = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

// What a child process that tries a mutant tells, also when it dies of an assertion.
struct Shared {
  std::uint64_t seed;
  char how[160];
};

struct Catch {
  std::uint64_t seed = 0;  // 0: none
  std::string how;
};

std::string ModeName(const Mutant& mutant) { return NameOf(mutant.mode) + (mutant.durable ? ", durable" : ""); }

Catch TryMutant(const Mutant& mutant, const RunName& first, std::uint64_t runs) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared{};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Judge judge;
    RunName name = first;
    for (std::uint64_t i = 0; i < runs; ++i, ++name.seed) {
      shared->seed = name.seed;
      const std::string problem = judge.Try(name, &mutant);
      if (problem.empty()) continue;
      std::snprintf(shared->how, sizeof shared->how, "%s", problem.c_str());
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Catch caught;
  if (WIFSIGNALED(status)) {
    caught = {shared->seed, "an assertion of the product"};
  } else if (WEXITSTATUS(status) != 0) {
    caught = {shared->seed, shared->how};
  }
  munmap(memory, sizeof(Shared));
  return caught;
}

int TryMutants(const Arguments& arguments) {
  std::size_t caught = 0, tried = 0;
  if (arguments.mutants) std::printf("| Mutant | Broken rule | Mode | Seeds | Seen as |\n|---|---|---|---|---|\n");
  for (const Mutant& mutant : Mutants()) {
    if (!arguments.mutants && mutant.name != arguments.mutant) continue;
    ++tried;
    RunName first = arguments.first;
    first.mode = mutant.mode;
    first.durable = mutant.durable;
    const Catch result = TryMutant(mutant, first, arguments.runs);
    caught += result.seed != 0 ? 1 : 0;
    const std::string seeds = result.seed == 0 ? "–" : std::to_string(result.seed - first.seed + 1);
    const std::string how = result.how.substr(0, result.how.find_first_of(";("));
    std::printf("| %s | %s | %s | %s | %s |\n", mutant.name.c_str(), mutant.broken.c_str(), ModeName(mutant).c_str(),
                seeds.c_str(), result.seed == 0 ? "–" : how.c_str());
    std::fflush(stdout);
  }
  std::printf("\n%zu of %zu caught within %llu seeds\n", caught, tried,
              static_cast<unsigned long long>(arguments.runs));
  return caught == tried && tried > 0 ? 0 : 1;
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
  for (const auto& [what, count] : judge.counts()) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  std::printf("%llu runs, %llu failed, %.0f runs/s\n", static_cast<unsigned long long>(arguments.runs),
              static_cast<unsigned long long>(failed), static_cast<double>(arguments.runs) / seconds);
  return failed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "usage: sim [--seed N] [--runs M] [--trace] [--async | --bounded | --allreduce] [--durable] [--local] "
                 "[--edition E] [--mutant NAME | --mutants]\n");
    return 2;
  }
  if (!arguments.mutant.empty() && FindMutant(arguments.mutant) == nullptr) {
    std::fprintf(stderr, "there is no mutant \"%s\"; these are:\n", arguments.mutant.c_str());
    for (const Mutant& mutant : Mutants()) std::fprintf(stderr, "  %s\n", mutant.name.c_str());
    return 2;
  }
  const bool many = !arguments.mutant.empty() && arguments.runs > 1;
  return arguments.mutants || many ? TryMutants(arguments) : TrySeeds(arguments);
}

}  // namespace
}  // namespace capstan::sim

int main(int argc, char** argv) { return capstan::sim::Main(argc, argv); }
