#include "cli/trainer/machine_account.h"

#include "cli/trainer/built_in_model.h"
#include "common/config/job/data_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

JobConfig WideJob(const std::vector<std::string>& overrides = {}) {
  constexpr char kJob[] = R"([job]
steps = 10
global_batch = 8
slots = 4
[model]
kind = "mlp"
hidden = [1000, 1000]
[data]
kind = "synthetic"
features = 1000
classes = 10
[optimizer]
kind = "adam"
[cluster]
servers = 2
workers = 2
)";
  Result<JobConfig> config = ParseJobConfig(kJob, "job.toml", overrides);
  REQUIRE(config.ok());
  return *config;
}

MachineAccount Count(const std::vector<std::string>& overrides = {}) {
  const Result<MachineAccount> account = CountMachine(WideJob(overrides));
  REQUIRE(account.ok());
  return *account;
}

TEST_CASE("all processes of a job are added up, each as it counts itself", "[cli][memory]") {
  const MachineAccount account = Count();
  const std::uint64_t parameters = 2 * 1001 * 1000 + 1001 * 10;
  CHECK(account.parameters == parameters);
  CHECK(account.bytes_per_parameter == 40);
  CHECK(account.all_servers == parameters * (40 + 4 * 4));  // with a gradient of each slot, which is less than windows
  CHECK(account.largest_server < account.all_servers);
  CHECK(account.workers == 2);
  CHECK(account.bytes() == account.all_servers + 2 * account.worker.resident());
  CHECK(Count({"cluster.workers=3"}).bytes() > account.bytes());
  CHECK(Count({"cluster.servers=1"}).all_servers == parameters * 40 + (std::uint64_t{16} << 20));  // one window
  CHECK(Count({"optimizer.kind=sgd"}).all_servers == parameters * (16 + 4 * 4));
}

TEST_CASE("more than the machine has is refused, by role and with what to change", "[cli][memory]") {
  const MachineAccount account = Count();
  FreeMemory free;
  free.resident = {account.bytes(), "this machine"};
  CHECK(CheckMachine(account, free).ok());
  free.resident.left_bytes -= 1;
  const Status status = CheckMachine(account, free);
  CHECK(status.code() == Code::kInvalid);
  for (const char* wanted : {"this machine has ", "2 servers: ", "2012010 parameters of 40 bytes each",
                             "2 workers: ", "each ", "weights ", "fewer [cluster] workers", "smaller [model]"}) {
    INFO(status.message() << "\nlacks " << wanted);
    CHECK(status.message().find(wanted) != std::string::npos);
  }
}

TEST_CASE("a worker that is too large by itself is refused as it would refuse itself", "[cli][memory]") {
  const MachineAccount account = Count();
  FreeMemory free;
  free.resident = {account.worker.resident() - 1, "this machine"};
  CHECK(CheckMachine(account, free).message() == train::CheckMemory(account.worker, free).message());
}

TEST_CASE("a server that is larger than ulimit -v allows is refused", "[cli][memory]") {
  MachineAccount account = Count({"cluster.servers=1"});
  FreeMemory free;
  free.address_space.limit_bytes = account.worker.resident() + account.worker.never_written;
  account.largest_server = free.address_space.limit_bytes;
  CHECK(CheckMachine(account, free).ok());
  account.largest_server += 1;
  CHECK(CheckMachine(account, free).message().find("ulimit -v") != std::string::npos);
}

TEST_CASE("data that cannot be read are said before anything is started", "[cli][memory]") {
  EditableJobConfig config = WideJob();
  config.data.kind = DataKind::kCsv;
  config.data.path = "/no/such/table.csv";
  CHECK(CheckMachine(config).message().find(config.data.path) != std::string::npos);
}

}  // namespace
}  // namespace capstan::cli
