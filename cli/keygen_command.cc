#include "cli/keygen_command.h"

#include <cstdio>

#include "cli/run/job_keys.h"
#include "cli/run/print_json.h"
#include "cli/run/process.h"
#include "common/keys/role_name.h"

namespace capstan::cli {
namespace {

constexpr char kCopyList[] =
    "Copy allow.toml to the machines of the coordinator and of each server, next to their key files:\n"
    "they read it again by themselves.\n";

Status MakeAll(const KeygenArguments& arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string coordinator,
                           MakeJobKeys(arguments.folder, {arguments.servers, arguments.workers}));
  if (arguments.output == "json") {
    PrintJson({{"folder", arguments.folder}, {"coordinator_key", coordinator}});
    return {};
  }
  std::printf(
      "The keys are in %s. In the job file:\n"
      "  [cluster]\n"
      "  coordinator = \"HOST:PORT#%s\"\n"
      "Take coordinator.key and allow.toml to the coordinator's machine, %s and allow.toml to each server's,\n"
      "and %s to each worker's, all with mode 0600. Start each process with --key-file FILE or CAPSTAN_KEY_FILE.\n",
      arguments.folder.c_str(), coordinator.c_str(), arguments.servers > 0 ? "server-N.key" : "server.key",
      arguments.workers > 0 ? "worker-N.key" : "worker.key");
  return {};
}

Status Add(const KeygenArguments& arguments) {
  const Role role = RoleOf(arguments.add).value();  // the command line takes no other word
  CAPSTAN_ASSIGN_OR_RETURN(const AddedKey added, AddJobKey(arguments.folder, role, arguments.name));
  if (arguments.output == "json") {
    PrintJson({{"folder", arguments.folder},
               {"role", arguments.add},
               {"file", added.file},
               {"coordinator_keys", added.coordinators}});
    return {};
  }
  std::printf("The key of a %s is in %s.\n%s", arguments.add.c_str(), added.file.c_str(), kCopyList);
  const std::size_t count = added.coordinators.size();
  if (role != Role::kCoordinator || count < 2) return {};
  std::printf(
      "Give each process both keys in the coordinator's address, HOST:PORT#%s,%s,\n"
      "when it starts the next time; then start the coordinator again with the new key's file, and revoke the old "
      "key.\n",
      added.coordinators[count - 2].c_str(), added.coordinators[count - 1].c_str());
  return {};
}

Status Revoke(const KeygenArguments& arguments) {
  CAPSTAN_RETURN_IF_ERROR(RevokeJobKey(arguments.folder, arguments.revoke));
  if (arguments.output == "json") {
    PrintJson({{"folder", arguments.folder}, {"revoked", arguments.revoke}});
    return {};
  }
  std::printf("[%s] is no longer in %s/allow.toml.\n%s", arguments.revoke.c_str(), arguments.folder.c_str(), kCopyList);
  return {};
}

}  // namespace

int RunKeygen(const KeygenArguments& arguments) {
  const auto run = !arguments.revoke.empty() ? &Revoke : !arguments.add.empty() ? &Add : &MakeAll;
  const Status status = run(arguments);
  if (status.ok()) return kExitDone;
  Complain("capstan", status.message());
  return ExitCode(status);
}

}  // namespace capstan::cli
