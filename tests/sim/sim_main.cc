// sim: simulated jobs by hand.
//
//   sim --seed N                the job of that seed, and what came of it
//   sim --seed N --trace        with every event on a line
//   sim --seed N --runs M       M jobs from that seed on; names the seeds that fail, exits 1 if there are any
//   sim ... --async             the same without global steps; --bounded: with a bound on staleness
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/sim/options.h"

namespace capstan::sim {
namespace {

struct Arguments {
  std::uint64_t seed = 1, runs = 1;
  bool trace = false, async = false, bounded = false;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (std::strcmp(argv[i], "--seed") == 0 && more) {
      arguments->seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--runs") == 0 && more) {
      arguments->runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--trace") == 0) {
      arguments->trace = true;
    } else if (std::strcmp(argv[i], "--async") == 0) {
      arguments->async = true;
    } else if (std::strcmp(argv[i], "--bounded") == 0) {
      arguments->bounded = true;
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(stderr, "usage: sim [--seed N] [--runs M] [--trace] [--async | --bounded]\n");
    return 2;
  }
  std::map<std::string, std::vector<float>> references;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t failed = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = arguments.seed; seed < arguments.seed + arguments.runs; ++seed) {
    ClusterOptions options = RandomOptions(seed);
    if (arguments.async) options.mode = Mode::kAsync;
    if (arguments.bounded) {
      options.mode = Mode::kBounded;
      options.staleness = seed % 4;
    }
    if (arguments.runs == 1) std::printf("%s\n", Describe(options).c_str());
    if (arguments.trace) options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
    std::vector<float>& reference = references[ReferenceKey(options)];
    if (reference.empty()) reference = RunCluster(Undisturbed(options)).weights;
    const Outcome outcome = RunCluster(options);
    for (const auto& [name, count] : outcome.counts) counts[name] += count;
    std::string problem = outcome.violation;
    if (problem.empty() && !outcome.finished) problem = "not finished";
    if (problem.empty() && options.mode == Mode::kSync && outcome.weights != reference) problem = "other weights";
    if (problem.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), problem.c_str());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& [name, count] : counts) std::printf("%12llu %s\n", static_cast<unsigned long long>(count), name.c_str());
  std::printf("%llu runs, %llu failed, %.0f runs/s\n", static_cast<unsigned long long>(arguments.runs),
              static_cast<unsigned long long>(failed), static_cast<double>(arguments.runs) / seconds);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace capstan::sim

int main(int argc, char** argv) { return capstan::sim::Main(argc, argv); }
