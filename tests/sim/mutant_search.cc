#include "tests/sim/mutant_search.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>

namespace capstan::sim {

namespace {

// Memory that the child process shares with this one: the seed of its present run, and which check has failed.
struct Shared {
  std::uint64_t seed;
  char how[160];
};

// Exit codes of the child process: no run has failed, or one has. A sanitizer ends a process with 1.
constexpr int kNothing = 0, kFound = 3;

[[noreturn]] void Search(const Mutant& mutant, RunName name, std::uint64_t runs, Shared* shared) {
  Judge judge;
  for (std::uint64_t i = 0; i < runs; ++i, ++name.seed) {
    shared->seed = name.seed;
    const std::string problem = judge.Try(name, &mutant);
    if (problem.empty()) continue;
    std::snprintf(shared->how, sizeof shared->how, "%s", problem.c_str());
    _exit(kFound);
  }
  _exit(kNothing);
}

std::optional<CaughtRun> SearchFrom(const Mutant& mutant, RunName name, std::uint64_t runs) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CAPSTAN_CHECK(memory != MAP_FAILED);
  auto* shared = new (memory) Shared{};
  std::fflush(stdout);
  const pid_t child = fork();
  CAPSTAN_CHECK(child >= 0);
  if (child == 0) Search(mutant, name, runs, shared);
  int status = 0;
  CAPSTAN_CHECK(waitpid(child, &status, 0) == child);
  name.seed = shared->seed;
  const std::string how = shared->how;
  munmap(memory, sizeof(Shared));
  if (WIFSIGNALED(status)) {
    CAPSTAN_CHECK(WTERMSIG(status) == SIGABRT);  // another signal is a bug of the simulator
    return CaughtRun{name, "an assertion of the product"};
  }
  if (WEXITSTATUS(status) == kNothing) return std::nullopt;
  return CaughtRun{name, WEXITSTATUS(status) == kFound ? how : "a sanitizer ended the process"};
}

}  // namespace

std::optional<CaughtRun> SearchMutant(const Mutant& mutant, RunName first, std::uint64_t runs) {
  first.mode = mutant.mode;
  first.durable = mutant.durable;
  first.old = mutant.old;
  first.slow_lines = mutant.slow_lines;
  first.local = mutant.local;
  first.external = mutant.external;
  first.shared = mutant.shared;
  return SearchFrom(mutant, first, runs);
}

std::optional<CaughtRun> TryMutant(const Mutant& mutant, const RunName& name) { return SearchFrom(mutant, name, 1); }

const RunName* FindCaught(const std::vector<ListedRun>& caught, const Mutant& mutant) {
  for (const ListedRun& run : caught) {
    if (run.note == mutant.name) return &run.name;
  }
  return nullptr;
}

}  // namespace capstan::sim
