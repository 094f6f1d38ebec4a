#include "cli/run/go_on_file.h"
#include "cli/run/job_addresses.h"
#include "cli/run/run_directory.h"
#include "tests/catch.h"
#include "tests/disk_calls/disk_calls.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using Kind = testing::DiskCalls::Call::Kind;

// Returns the files and names that were not made durable, except the file named "lock": no later process needs the
// process id in it.
std::vector<std::string> NotDurable(testing::DiskCalls& calls) {
  std::vector<std::string> bad = calls.NotDurable();
  std::erase_if(bad, [](const std::string& line) { return line.find("/lock was written") != std::string::npos; });
  return bad;
}

TEST_CASE("a run directory, its folders and its files outlive a power cut", "[cli][run_directory][power_cut]") {
  const testing::TempFolder scratch;
  testing::DiskCalls calls(scratch.path());
  const std::string path = scratch.path("runs/digits");
  const Result<RunDirectory> directory = RunDirectory::Create(path, "digits");
  REQUIRE(directory.ok());
  CHECK(NotDurable(calls) == std::vector<std::string>());
  REQUIRE(WriteGoOnCall(path, "capstan launch --resume").ok());
  REQUIRE(WritePid(path, "server-0", 7).ok());
  JobAddresses addresses("digits", 1);
  REQUIRE(addresses.Begin(path, "127.0.0.1:1", "127.0.0.1:2").ok());
  CHECK(NotDurable(calls) == std::vector<std::string>());
}

TEST_CASE("addresses that find no room are written as soon as there is some", "[cli][job_addresses]") {
  const testing::TempFolder folder;
  testing::DiskCalls calls(folder.path());
  JobAddresses addresses("digits", 1);
  REQUIRE(addresses.Begin(folder.path(), "127.0.0.1:1", "").ok());
  calls.fail = [](const testing::DiskCalls::Call& call) { return call.kind == Kind::kWrite ? ENOSPC : 0; };
  server::Roster members;
  members.workers.push_back({"worker-0", "127.0.0.1:3"});
  CHECK(addresses.SetMembers(members).code() == Code::kBusy);
  CHECK(addresses.WriteAgain().code() == Code::kBusy);
  CHECK(ReadEndpoints(folder.path()).coordinator == "127.0.0.1:1");
  calls.fail = nullptr;
  CHECK(addresses.WriteAgain().ok());
  CHECK(ReadEndpoints(folder.path()).metrics.at("worker-0") == "127.0.0.1:3");
  const std::size_t made = calls.calls().size();
  CHECK(addresses.WriteAgain().ok());
  CHECK(calls.calls().size() == made);
}

}  // namespace
}  // namespace capstan::cli
