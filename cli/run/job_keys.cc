#include "cli/run/job_keys.h"

#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/run/process_keys.h"
#include "common/base/durable_file.h"
#include "common/base/file_lock.h"
#include "common/base/name.h"
#include "common/base/private_folder.h"
#include "common/keys/allow_list.h"
#include "common/keys/allow_list_text.h"
#include "common/keys/key_file.h"
#include "common/keys/role_name.h"

namespace capstan::cli {
namespace {

constexpr std::array kRolesWithKeys = {Role::kCoordinator, Role::kServer, Role::kWorker, Role::kReader, Role::kAdmin};

constexpr char kHead[] =
    "# Which keys may take part in the job, and as what. It lies next to the key files of the coordinator and of each\n"
    "# server, which read it again when it changes. A section may have name = \"NAME\", the only name under which "
    "that\n"
    "# key may join, and expires = \"2027-01-31T12:00:00Z\". capstan keygen FOLDER --add and\n"
    "# --revoke add and remove sections.\n";
constexpr double kLockSeconds = 10;  // longest wait for another process that changes the keys

// A folder of keys whose list this process alone changes.
struct OpenFolder {
  std::string path, list_path, text;
  AllowList list;
  FileLock lock;

  Status Write(const std::string& changed) const {
    CAPSTAN_RETURN_IF_ERROR(AllowList::Parse(changed, list_path).status());
    return WriteFileDurably(list_path, changed);
  }
};

// Returns the name of a key's section and, with .key, of its file.
std::string TitleOf(Role role, const std::string& name) {
  if (name.empty()) return std::string(NameOf(role));
  return role == Role::kServer ? "server-" + name : name;
}

// Makes a key's file in the folder, then adds its section to the list: what a list admits can be proved. Returns the
// public key as text.
Result<std::string> MakeKey(const std::string& folder, const Principal& principal, std::string* list) {
  const std::string title = TitleOf(principal.role, principal.name);
  const KeyFile file{principal.role, NewKeyPair()};
  CAPSTAN_RETURN_IF_ERROR(WriteKeyFile(folder + "/" + title + ".key", file));
  *list += AllowListSection(title, file.keys.public_key, principal);
  return TextOf(file.keys.public_key);
}

Result<OpenFolder> Open(const std::string& folder) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string path, FindPrivateFolder(folder));
  std::string list_path = path + "/" + kAllowListName;
  if (!std::filesystem::exists(list_path)) {
    return Invalid(folder + " is no folder of keys: it has no " + kAllowListName + "; capstan keygen FOLDER makes one");
  }
  CAPSTAN_ASSIGN_OR_RETURN(FileLock lock, FileLock::Acquire(list_path, kLockSeconds));
  CAPSTAN_ASSIGN_OR_RETURN(std::string text, ReadAllowListText(list_path));
  CAPSTAN_ASSIGN_OR_RETURN(AllowList list, AllowList::Parse(text, list_path));
  return OpenFolder{std::move(path), std::move(list_path), std::move(text), std::move(list), std::move(lock)};
}

}  // namespace

std::string KeyFileIn(const std::string& folder, Role role) {
  return folder + "/" + std::string(NameOf(role)) + ".key";
}

std::string KeyFileFor(const std::string& folder, Role role, const std::string& process) {
  const std::string own = folder + "/" + process + ".key";
  return std::filesystem::exists(own) ? own : KeyFileIn(folder, role);
}

Result<std::string> MakeJobKeys(const std::string& folder, OwnKeys own) {
  CAPSTAN_RETURN_IF_ERROR(MakeFolders(FolderOf(folder)));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string made, MakePrivateFolder(folder));
  if (std::filesystem::exists(made + "/" + kAllowListName)) {
    return Invalid(folder + " has keys already, and their list would be lost; capstan keygen " + folder +
                   " --add ROLE --name NAME adds one");
  }
  std::string list = kHead;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string coordinator, MakeKey(made, {Role::kCoordinator, ""}, &list));
  for (const auto& [role, count] : {std::pair(Role::kServer, own.servers), {Role::kWorker, own.workers}}) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      const std::string name = role == Role::kServer ? number : "worker-" + number;
      CAPSTAN_RETURN_IF_ERROR(MakeKey(made, {role, name}, &list).status());
    }
    if (count == 0) CAPSTAN_RETURN_IF_ERROR(MakeKey(made, {role, ""}, &list).status());
  }
  for (const Role role : {Role::kReader, Role::kAdmin}) {
    CAPSTAN_RETURN_IF_ERROR(MakeKey(made, {role, ""}, &list).status());
  }
  CAPSTAN_RETURN_IF_ERROR(WriteFileDurably(made + "/" + kAllowListName, list));
  return coordinator;
}

Result<AddedKey> AddJobKey(const std::string& folder, Role role, const std::string& name) {
  const std::string title = TitleOf(role, name);
  CAPSTAN_RETURN_IF_ERROR(CheckName("the name of a key", title));
  if (role == Role::kServer && !IsServerNumber(name)) {
    return Invalid("the name of a server's key is the server's number, its --index, not \"" + name + "\"");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const OpenFolder keys, Open(folder));
  if (keys.list.KeyIn(title)) {
    return Invalid(keys.list_path + " has a key [" + title +
                   "] already; choose another name with --name, or revoke that key: "
                   "capstan keygen " +
                   folder + " --revoke " + title);
  }
  AddedKey added{keys.path + "/" + title + ".key", {}};
  for (const PublicKey& key : keys.list.KeysOf(Role::kCoordinator)) added.coordinators.push_back(TextOf(key));
  std::string list = keys.text;
  CAPSTAN_ASSIGN_OR_RETURN(std::string key, MakeKey(keys.path, {role, name}, &list));
  CAPSTAN_RETURN_IF_ERROR(keys.Write(list));
  if (role == Role::kCoordinator) added.coordinators.push_back(std::move(key));
  return added;
}

Status RevokeJobKey(const std::string& folder, const std::string& section) {
  CAPSTAN_ASSIGN_OR_RETURN(const OpenFolder keys, Open(folder));
  const std::optional<PublicKey> key = keys.list.KeyIn(section);
  if (!key) return Invalid(keys.list_path + " has no key [" + section + "]; its sections are the names of the keys");
  if (keys.list.size() == 1) {
    return Invalid("[" + section + "] is the last key in " + keys.list_path +
                   ", and a list without keys is not taken; end the job, or add another key first");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, WithoutSection(keys.text, section, keys.list_path));
  CAPSTAN_RETURN_IF_ERROR(keys.Write(text));
  const std::string path = keys.path + "/" + section + ".key";
  const Result<KeyFile> file = ReadKeyFile(path);
  std::error_code ignored;
  if (file.ok() && file->keys.public_key == *key) std::filesystem::remove(path, ignored);
  return {};
}

void RemoveJobKeys(const std::string& folder) {
  std::error_code ignored;
  for (const Role role : kRolesWithKeys) std::filesystem::remove(KeyFileIn(folder, role), ignored);
  std::filesystem::remove(folder + "/" + kAllowListName, ignored);
  std::filesystem::remove(folder, ignored);
}

}  // namespace capstan::cli
