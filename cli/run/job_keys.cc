#include "cli/run/job_keys.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/run/process_keys.h"
#include "common/base/durable_file.h"
#include "common/base/private_folder.h"
#include "common/keys/key_file.h"
#include "common/keys/role_name.h"

namespace capstan::cli {
namespace {

constexpr std::array kRolesWithKeys = {Role::kCoordinator, Role::kServer, Role::kWorker, Role::kReader, Role::kAdmin};

constexpr char kHead[] =
    "# Which keys may take part in the job, and as what. It lies next to the key files of the coordinator and of each\n"
    "# server, which read it again when it changes. A section may have name = \"NAME\", the only name under which "
    "that\n"
    "# key may join, and expires = \"2027-01-31T12:00:00Z\". To revoke a key, remove its section.\n";

}  // namespace

std::string KeyFileIn(const std::string& folder, Role role) {
  return folder + "/" + std::string(NameOf(role)) + ".key";
}

Result<std::string> MakeJobKeys(const std::string& folder) {
  CAPSTAN_RETURN_IF_ERROR(MakeFolders(FolderOf(folder)));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string made, MakePrivateFolder(folder));
  std::string list = kHead, coordinator;
  for (const Role role : kRolesWithKeys) {
    KeyFile file{role, NewKeyPair()};
    CAPSTAN_RETURN_IF_ERROR(WriteKeyFile(KeyFileIn(made, role), file));
    const std::string key = TextOf(file.keys.public_key), name(NameOf(role));
    if (role == Role::kCoordinator) coordinator = key;
    list += "\n[" + name + "]\nkey = \"" + key + "\"\nrole = \"" + name + "\"\n";
  }
  CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(made + "/" + kAllowListName, list));
  return coordinator;
}

void RemoveJobKeys(const std::string& folder) {
  std::error_code ignored;
  for (const Role role : kRolesWithKeys) std::filesystem::remove(KeyFileIn(folder, role), ignored);
  std::filesystem::remove(folder + "/" + kAllowListName, ignored);
  std::filesystem::remove(folder, ignored);
}

}  // namespace capstan::cli
