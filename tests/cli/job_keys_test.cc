// Tests of adding keys to a job's folder of keys, and revoking them.
#include "cli/run/job_keys.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/keys/allow_list.h"
#include "common/keys/key_file.h"
#include "common/keys/role_name.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::TempFolder;

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A folder of keys that a test changes.
struct Keys {
  TempFolder temp;
  std::string folder = temp.path("keys"), list_path = folder + "/allow.toml";
  std::string coordinator = MakeJobKeys(folder).value();

  AllowList list() const { return AllowList::Parse(ContentsOf(list_path), list_path).value(); }
  std::string WhyNotAdd(Role role, const std::string& name) const {
    return AddJobKey(folder, role, name).status().message();
  }
  std::string WhyNotRevoke(const std::string& section) const { return RevokeJobKey(folder, section).message(); }
};

TEST_CASE("a key is added to a folder of keys, and the others and the comments stay", "[cli][keys]") {
  const Keys keys;
  const std::string before = ContentsOf(keys.list_path), server = ContentsOf(KeyFileIn(keys.folder, Role::kServer));
  const AddedKey added = AddJobKey(keys.folder, Role::kWorker, "w1").value();
  CHECK(ContentsOf(keys.list_path).starts_with(before));
  CHECK(ContentsOf(KeyFileIn(keys.folder, Role::kServer)) == server);
  const KeyFile file = ReadKeyFile(added.file).value();
  CHECK(file.role == Role::kWorker);
  CHECK(Describe(keys.list().Find(file.keys.public_key, {}).value()) == "worker \"w1\"");
  struct stat facts {};
  REQUIRE(stat(keys.list_path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
}

TEST_CASE("a coordinator's second key is told behind its first", "[cli][keys]") {
  const Keys keys;
  const AddedKey added = AddJobKey(keys.folder, Role::kCoordinator, "coordinator-2").value();
  const std::string second = TextOf(ReadKeyFile(added.file).value().keys.public_key);
  CHECK(added.coordinators == std::vector{keys.coordinator, second});
  CHECK(keys.list().KeysOf(Role::kCoordinator).size() == 2);
}

TEST_CASE("servers and workers can have keys of their own, which are for one of them only", "[cli][keys]") {
  const TempFolder temp;
  const std::string folder = temp.path("keys");
  REQUIRE(MakeJobKeys(folder, {.servers = 2, .workers = 1}).ok());
  const AllowList list = AllowList::Parse(ContentsOf(folder + "/allow.toml"), "allow.toml").value();
  const auto owner = [&](const std::string& file) {
    return Describe(list.Find(ReadKeyFile(folder + "/" + file).value().keys.public_key, {}).value());
  };
  CHECK(owner("server-0.key") == "server \"0\"");
  CHECK(owner("server-1.key") == "server \"1\"");
  CHECK(owner("worker-0.key") == "worker \"worker-0\"");
  CHECK_FALSE(fs::exists(KeyFileIn(folder, Role::kServer)));
  CHECK(list.size() == 6);
  CHECK(KeyFileFor(folder, Role::kServer, "server-1") == folder + "/server-1.key");
  CHECK(KeyFileFor(folder, Role::kServer, "server-2") == folder + "/server.key");
  const AddedKey third = AddJobKey(folder, Role::kServer, "2").value();
  CHECK(third.file == folder + "/server-2.key");
}

TEST_CASE("a revoked key is gone from the list, and its name is free", "[cli][keys]") {
  const Keys keys;
  const std::string before = ContentsOf(keys.list_path);
  const std::string file = AddJobKey(keys.folder, Role::kReader, "eval").value().file;
  REQUIRE(RevokeJobKey(keys.folder, "eval").message() == "");
  CHECK(ContentsOf(keys.list_path) == before + "\n");
  CHECK_FALSE(fs::exists(file));
  CHECK(AddJobKey(keys.folder, Role::kReader, "eval").ok());
}

TEST_CASE("revoking a key leaves another key's file of that name alone", "[cli][keys]") {
  const Keys keys;
  const std::string file = AddJobKey(keys.folder, Role::kReader, "eval").value().file;
  fs::copy_file(KeyFileIn(keys.folder, Role::kReader), file, fs::copy_options::overwrite_existing);
  REQUIRE(RevokeJobKey(keys.folder, "eval").ok());
  CHECK(fs::exists(file));
}

TEST_CASE("a change that cannot be made is refused in words, and changes nothing", "[cli][keys]") {
  const Keys keys;
  const std::string before = ContentsOf(keys.list_path);
  CHECK_THAT(keys.WhyNotAdd(Role::kWorker, ""), Contains("has a key [worker] already; choose another name"));
  CHECK_THAT(keys.WhyNotAdd(Role::kReader, "server"), Contains("has a key [server] already"));
  for (const char* name : {"one", "01", "1234567890"}) {
    CHECK_THAT(keys.WhyNotAdd(Role::kServer, name), Contains("is the server's number"));
  }
  CHECK_THAT(keys.WhyNotAdd(Role::kReader, "a/b"), Contains("the name of a key"));
  CHECK_THAT(keys.WhyNotRevoke("w9"), Contains("allow.toml has no key [w9]"));
  CHECK_THAT(MakeJobKeys(keys.folder).status().message(), Contains("has keys already"));
  CHECK_THAT(RevokeJobKey(keys.temp.path("none"), "worker").message(), Contains("none"));
  fs::create_directory(keys.temp.path("empty"));
  fs::permissions(keys.temp.path("empty"), fs::perms::owner_all);
  CHECK_THAT(RevokeJobKey(keys.temp.path("empty"), "worker").message(), Contains("is no folder of keys"));
  REQUIRE(chmod(keys.list_path.c_str(), 0620) == 0);
  CHECK_THAT(keys.WhyNotAdd(Role::kWorker, "w1"), Contains("other users may change the allow list"));
  CHECK_THAT(keys.WhyNotRevoke("worker"), Contains("other users may change the allow list"));
  CHECK_FALSE(fs::exists(keys.folder + "/w1.key"));
  CHECK(ContentsOf(keys.list_path) == before);
}

TEST_CASE("the last key is not revoked", "[cli][keys]") {
  const Keys keys;
  for (const char* section : {"coordinator", "server", "worker", "reader"}) {
    REQUIRE(RevokeJobKey(keys.folder, section).ok());
  }
  CHECK_THAT(keys.WhyNotRevoke("admin"), Contains("[admin] is the last key"));
}

}  // namespace
}  // namespace capstan::cli
