#include "cli/doctor/machine_checks.h"

#include <filesystem>

#include "cli/doctor/coordinator_check.h"
#include "cli/doctor/disk_check.h"
#include "cli/doctor/job_checks.h"
#include "cli/doctor/network_checks.h"
#include "cli/doctor/python_check.h"
#include "cli/doctor/run_program.h"
#include "cli/doctor_command.h"
#include "tests/catch.h"
#include "tests/file_size_limit.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;

// Every warning and error has an advice, and a good finding has none.
void CheckFinding(const Finding& finding, Level level, const std::string& part) {
  INFO(finding.check << ": " << finding.text << " -> " << finding.advice);
  CHECK(finding.level == level);
  CHECK(finding.advice.empty() == (level == Level::kGood));
  CHECK_THAT(finding.text + "\n" + finding.advice, Contains(part));
}

TEST_CASE("a build with sanitizers, or without optimisation, is no build for real jobs", "[cli][doctor]") {
  Build build{"1.2.3", "abc", 0, "Release", "", "GNU 12.2.0", "4.3.5"};
  CheckFinding(CheckBuild(build), Level::kGood, "capstan 1.2.3 (commit abc)");
  build.sanitizers = "address";
  CheckFinding(CheckBuild(build), Level::kWarning, "sanitizers address");
  build = {"1.2.3", "abc", 0, "Debug", "", "GNU 12.2.0", "4.3.5"};
  CheckFinding(CheckBuild(build), Level::kWarning, "not optimised");
  CHECK(!BuildOfThis().libzmq.empty());
}

TEST_CASE("a processor without AVX2 fails, and a quota below its cores is a warning", "[cli][doctor]") {
  ProcessorFacts facts{"A processor", true, 8, std::nullopt};
  CheckFinding(CheckProcessor(facts), Level::kGood, "A processor, 8 cores");
  facts.quota_cores = 8;
  CheckFinding(CheckProcessor(facts), Level::kGood, "AVX2");
  facts.quota_cores = 1.5;
  CheckFinding(CheckProcessor(facts), Level::kWarning, "allows 1.5 of them");
  facts.has_avx2 = false;
  CheckFinding(CheckProcessor(facts), Level::kError, "Illegal instruction");
}

TEST_CASE("the tightest quota of a process's control groups counts", "[cli][doctor]") {
  const testing::TempFolder root;
  CHECK_FALSE(ReadProcessorQuota(root.path()));
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  root.Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK(ReadProcessorQuota(root.path()) == 1.5);
  root.Write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  CHECK(ReadProcessorQuota(root.path()) == 0.5);
  const testing::TempFolder version_1;
  version_1.Write("proc/self/cgroup", "4:cpu,cpuacct:/c\n");
  version_1.Write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  version_1.Write("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(ReadProcessorQuota(version_1.path()));
  version_1.Write("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
  CHECK(ReadProcessorQuota(version_1.path()) == 2);
}

TEST_CASE("little memory is a warning, next to none is an error, and both name what limits it", "[cli][doctor]") {
  FreeMemory free;
  CheckFinding(CheckFreeMemory(free), Level::kGood, "no limit");
  free.resident = {8 * kGibibyte, "this machine"};
  CheckFinding(CheckFreeMemory(free), Level::kGood, "this machine has 8.0 GiB");
  free.resident = {kGibibyte / 2, "the control group /a"};
  CheckFinding(CheckFreeMemory(free), Level::kWarning, "the control group /a has 512 MiB");
  free.resident.left_bytes = kGibibyte / 8;
  CheckFinding(CheckFreeMemory(free), Level::kError, "128 MiB");
  free.resident.left_bytes = 8 * kGibibyte;
  free.address_space.limit_bytes = kGibibyte / 8;
  CheckFinding(CheckFreeMemory(free), Level::kError, "ulimit -v");
}

TEST_CASE("the hard limit of open files counts, as processes raise the soft one", "[cli][doctor]") {
  LimitFacts facts;
  facts.open_files = 64;
  facts.open_files_most = 1'048'576;
  CheckFinding(CheckOpenFiles(facts), Level::kGood, "1048576");
  facts.open_files_most = 256;
  CheckFinding(CheckOpenFiles(facts), Level::kWarning, "LimitNOFILE=");
  facts.open_files_most = 32;
  CheckFinding(CheckOpenFiles(facts), Level::kError, "at least 64");
}

TEST_CASE("few threads are a warning, and core files are said to be on or off", "[cli][doctor]") {
  LimitFacts facts;
  CheckFinding(CheckProcesses(facts), Level::kGood, "no limit");
  facts.processes = 20;
  CheckFinding(CheckProcesses(facts), Level::kWarning, "ulimit -u");
  CheckFinding(CheckCoreFiles(facts), Level::kGood, "leaves no core file");
  facts.core_file_bytes = kNoLimit;
  CheckFinding(CheckCoreFiles(facts), Level::kGood, "of any size");
}

TEST_CASE("a clock before the build's commit is wrong, and one that nobody sets is a warning", "[cli][doctor]") {
  ClockFacts facts;
  facts.built = std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000));
  facts.now = facts.built + std::chrono::seconds(1);
  CheckFinding(CheckClock(facts), Level::kGood, "2023-11-14 22:13:21 UTC");
  facts.synchronised = true;
  CheckFinding(CheckClock(facts), Level::kGood, "is synchronised");
  facts.synchronised = false;
  CheckFinding(CheckClock(facts), Level::kWarning, "chronyd");
  facts.now = facts.built - std::chrono::seconds(1);
  CheckFinding(CheckClock(facts), Level::kError, "2023-11-14 22:13:20 UTC");
  CHECK(ReadClock().now > std::chrono::sys_seconds());
}

TEST_CASE("a locale that is not installed is a warning", "[cli][doctor]") {
  TerminalFacts facts;
  CheckFinding(CheckTerminal(facts), Level::kGood, "stderr is no terminal");
  facts = {true, 120, "xterm", "C.UTF-8", true, true};
  CheckFinding(CheckTerminal(facts), Level::kGood, "terminal xterm of 120 columns; locale C.UTF-8");
  facts.type = "dumb";
  CheckFinding(CheckTerminal(facts), Level::kGood, "moves no cursor");
  facts.has_locale = false;
  CheckFinding(CheckTerminal(facts), Level::kWarning, "C.UTF-8");
}

DiskFacts DiskOf(std::uint64_t free_bytes) { return {"/disk", "", free_bytes, std::nullopt, "", 0.001, 1e9}; }

TEST_CASE("a disk without room fails, and one without room for all snapshots is a warning", "[cli][doctor]") {
  CheckFinding(CheckDisk(DiskOf(2 * kGibibyte)), Level::kGood, "/disk has 2.0 GiB free; an fsync takes 1.0 ms");
  CheckFinding(CheckDisk(DiskOf(kGibibyte / 2)), Level::kWarning, "small jobs");
  CheckFinding(CheckDisk(DiskOf(1 << 20)), Level::kError, "1.0 MiB free");
  CheckFinding(CheckDisk(DiskOf(2 * kGibibyte), kGibibyte / 4, 3), Level::kGood, "2.0 GiB");
  CheckFinding(CheckDisk(DiskOf(2 * kGibibyte), kGibibyte, 3), Level::kWarning, "3 snapshots of 1.0 GiB");
  CheckFinding(CheckDisk(DiskOf(2 * kGibibyte), 3 * kGibibyte, 3), Level::kError, "one snapshot of this job");
}

TEST_CASE("a disk that refuses files, has no more of them, is slow or in memory is said to be so", "[cli][doctor]") {
  DiskFacts facts = DiskOf(2 * kGibibyte);
  facts.kind = "tmpfs";
  CheckFinding(CheckDisk(facts), Level::kWarning, "in memory");
  facts.kind = "NFS";
  facts.sync_seconds = 0.2;
  CheckFinding(CheckDisk(facts), Level::kWarning, "/disk (NFS)");
  facts.free_files = 3;
  CheckFinding(CheckDisk(facts), Level::kError, "only 3 more files");
  facts.problem = "Read-only file system";
  CheckFinding(CheckDisk(facts), Level::kError, "Read-only file system");
}

TEST_CASE("a disk is measured where the run directory will be, and nothing is left there", "[cli][doctor]") {
  const testing::TempFolder folder;
  const DiskFacts facts = MeasureDisk(folder.path("runs/new"));
  CHECK(facts.folder == folder.path());
  CHECK(facts.problem.empty());
  CHECK(facts.free_bytes > 0);
  CHECK(facts.sync_seconds);
  CHECK(facts.write_bytes_per_second);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a disk on which a write fails is said to fail", "[cli][doctor]") {
  const testing::TempFolder folder;
  const testing::FileSizeLimit limit(1000);
  CheckFinding(CheckDisk(MeasureDisk(folder.path())), Level::kError, "File too large");
}

TEST_CASE("a machine without a loopback interface fails, one without a network does not", "[cli][doctor]") {
  NetworkFacts facts{"", "10.0.0.5", "", "node"};
  CheckFinding(CheckLoopback(facts), Level::kGood, "127.0.0.1");
  CheckFinding(CheckMachineAddress(facts), Level::kGood, "\"node\", is reached by others at 10.0.0.5");
  facts = {"Network is unreachable", "", "no route", "node"};
  CheckFinding(CheckLoopback(facts), Level::kError, "ip link set lo up");
  CheckFinding(CheckMachineAddress(facts), Level::kWarning, "no route");
  facts.own_address = "127.0.0.1";
  CheckFinding(CheckMachineAddress(facts), Level::kWarning, "cluster.advertise");
  CHECK(ReadNetwork().loopback_problem.empty());
}

TEST_CASE("a Python that lacks capstan is a warning, and its error is quoted", "[cli][doctor]") {
  PythonFacts facts{"", "3.11.2", "/lib/capstan/__init__.py", "", "2.0"};
  CheckFinding(CheckPython(facts, "python3"), Level::kGood, "python3 is Python 3.11.2, with capstan from /lib");
  facts.capstan = "";
  facts.capstan_problem = "ModuleNotFoundError: No module named 'capstan'";
  CheckFinding(CheckPython(facts, "python3"), Level::kWarning, "ModuleNotFoundError");
  CheckFinding(CheckPython(ReadPython("no-such-python", "/"), "no-such-python"), Level::kWarning, "no-such-python");
  CheckFinding(CheckPython(ReadPython("echo", "/"), "echo"), Level::kWarning, "echo answers");
}

TEST_CASE("a program's output is returned, up to a limit, and its failure has what it said", "[cli][doctor]") {
  using std::chrono::seconds;
  CHECK(RunForOutput({"sh", "-c", "echo one; echo two >&2"}, seconds(20)).value() == "one\ntwo\n");
  CHECK(RunForOutput({"head", "-c", "1000000", "/dev/zero"}, seconds(20)).value().size() == kProgramOutputMax);
  CHECK(RunForOutput({"no-such-program"}, seconds(20)).status().code() == Code::kInvalid);
  CHECK_THAT(RunForOutput({"sh", "-c", "echo why; exit 3"}, seconds(20)).status().message(), Contains("why"));
  CHECK(RunForOutput({"tail", "-f", "/dev/null"}, seconds(0)).status().code() == Code::kTimeout);
  // A program that closes its output and lives on.
  CHECK(RunForOutput({"sh", "-c", "exec sleep 1000 >&- 2>&-"}, seconds(1)).status().code() == Code::kTimeout);
}

TEST_CASE("clocks that differ by more than the answer took are a warning", "[cli][doctor]") {
  CoordinatorFacts facts;
  facts.address = "10.0.0.5:29600";
  facts.job = "digits";
  facts.step = 3;
  facts.steps = 10;
  facts.answer_seconds = 0.001;
  CheckFinding(CheckCoordinator(facts), Level::kGood,
               "job \"digits\" at 10.0.0.5:29600 answers in 1.0 ms, at step 3 of 10");
  CheckFinding(CheckSkew(facts), Level::kGood, "does not say its time");
  facts.skew_seconds = 1.5;
  CheckFinding(CheckSkew(facts), Level::kGood, "1.500 s ahead of");
  facts.skew_seconds = -2.5;
  CheckFinding(CheckSkew(facts), Level::kWarning, "2.500 s behind");
  facts.answer_seconds = 2;  // of which half may be the difference
  CheckFinding(CheckSkew(facts), Level::kGood, "2.500 s behind");
  facts.role = "worker";
  CheckFinding(CheckCoordinator(facts), Level::kGood, "role = \"worker\"");
  facts.role = "";
  facts.exposure = "whoever reaches it can read the weights";
  CheckFinding(CheckCoordinator(facts), Level::kWarning, "whoever reaches it");
  facts.problem = "Connection refused";
  CheckFinding(CheckCoordinator(facts), Level::kError, "Connection refused");
}

TEST_CASE("an address that is none, and a key file that is not there, are reported without a wait", "[cli][doctor]") {
  CheckFinding(CheckCoordinator(AskCoordinator("nonsense", "")), Level::kError, "nonsense");
  CheckFinding(CheckCoordinator(AskCoordinator("127.0.0.1:1", "/no/such.key")), Level::kError, "/no/such.key");
  CheckFinding(CheckCoordinator(AskCoordinator("127.0.0.1:1", "")), Level::kError, "Connection refused");
}

// A job of built-in workers, with other values than the file's.
EditableJobConfig SmallJob(const std::vector<std::string>& overrides) {
  const testing::TempFolder folder;
  const std::string file = folder.Write("job.toml",
                                        "[job]\nsteps = 10\nglobal_batch = 8\nslots = 4\n[model]\nkind = \"mlp\"\n"
                                        "hidden = [8]\n[data]\nkind = \"synthetic\"\n");
  std::optional<EditableJobConfig> config;
  const Finding finding = ReadJob(file, overrides, &config);
  REQUIRE(config);
  CHECK(finding.level != Level::kError);
  return *config;
}

TEST_CASE("a job file that cannot be read is an error, and idle workers are a warning", "[cli][doctor]") {
  std::optional<EditableJobConfig> config;
  CheckFinding(ReadJob("/no/such/job.toml", {}, &config), Level::kError, "/no/such/job.toml");
  CHECK_FALSE(config);
  const testing::TempFolder folder;
  const std::string file = folder.Write("job.toml",
                                        "[job]\nsteps = 10\nglobal_batch = 8\nslots = 2\n[model]\n"
                                        "kind = \"client\"\n[cluster]\nworkers = 3\n");
  CheckFinding(ReadJob(file, {}, &config), Level::kWarning, "nothing to compute");
  CheckFinding(ReadJob(file, {"cluster.workers=2"}, &config), Level::kGood, "2 workers");
}

TEST_CASE("a job that does not fit into memory, or whose data are missing, fails", "[cli][doctor]") {
  std::uint64_t snapshot = 0;
  CheckFinding(CheckNeeds(SmallJob({}), &snapshot), Level::kGood, "1 server: ");
  CHECK(snapshot == 12 * (8 * 33 + 9 * 10));  // weights and two states of adamw
  CheckFinding(CheckNeeds(SmallJob({"model.hidden=[120000,120000]"}), &snapshot), Level::kError, "smaller [model]");
  CheckFinding(CheckNeeds(SmallJob({"data.kind=csv", "data.path=/no/such.csv"}), &snapshot), Level::kError,
               "/no/such.csv");
}

TEST_CASE("more threads than cores are a warning", "[cli][doctor]") {
  const EditableJobConfig job = SmallJob({"cluster.workers=2", "worker.threads=3"});
  CheckFinding(CheckThreads(job, {"", true, 6, std::nullopt}), Level::kGood, "6 threads together");
  CheckFinding(CheckThreads(job, {"", true, 6, 4.5}), Level::kWarning, "4.5 cores are here");
}

TEST_CASE("an address that is taken, or not of this machine, fails", "[cli][doctor]") {
  CheckFinding(CheckAddresses(SmallJob({})), Level::kGood, "Unix sockets");
  CheckFinding(CheckAddresses(SmallJob({"cluster.coordinator=127.0.0.1:29999"})), Level::kGood, "127.0.0.1:29999");
  CheckFinding(CheckAddresses(SmallJob({"cluster.coordinator=192.0.2.1:29999"})), Level::kError, "192.0.2.1");
}

TEST_CASE("a missing GPU is an error only for a job that needs one", "[cli][doctor]") {
  DeviceFacts facts{"", 0, "no plug-in", ""};
  const EditableJobConfig cpu = SmallJob({}), cuda = SmallJob({"worker.device=cuda"});
  CheckFinding(CheckDevice(facts, nullptr), Level::kGood, "no NVIDIA driver is loaded");
  CheckFinding(CheckDevice(facts, &cpu), Level::kGood, "no NVIDIA driver is loaded");
  CheckFinding(CheckDevice(facts, &cuda), Level::kError, "worker.device=cpu");
  facts = {"580.1", 8, "no plug-in", ""};
  CheckFinding(CheckDevice(facts, &cpu), Level::kWarning, "driver 580.1 with 8 GPUs");
  facts.plugin_problem = "";
  CheckFinding(CheckDevice(facts, &cuda), Level::kGood, "can compute on it");
  facts.use_problem = "too old";
  CheckFinding(CheckDevice(facts, &cuda), Level::kError, "too old");
  facts = {"", 0, "", ""};
  CheckFinding(CheckDevice(facts, &cuda), Level::kError, "no NVIDIA driver");
}

TEST_CASE("findings are printed as lines and as JSON, and cannot move a terminal's cursor", "[cli][doctor]") {
  const std::vector<Finding> findings = {Good("one", "fine"), Warning("two", "odd \x1b[2J", "mend it"),
                                         Problem("three", "broken", "mend it too")};
  CHECK(TextOf(findings) ==
        "ok       one: fine\nwarning  two: odd \\x1B[2J\n         -> mend it\nerror    three: broken\n"
        "         -> mend it too\n1 error, 1 warning\n");
  CHECK_THAT(JsonOf(findings), Contains("\"level\": \"error\"") && Contains("\"warnings\": 1"));
}

}  // namespace
}  // namespace capstan::cli
