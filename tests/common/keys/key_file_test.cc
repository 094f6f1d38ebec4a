#include "common/keys/key_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/keys/role_name.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::TempFolder;

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Returns the message with which reading fails.
std::string WhyNot(const std::string& path) { return ReadKeyFile(path).status().message(); }

TEST_CASE("a key file is read back as it was written, and only its owner can read it", "[keys]") {
  const TempFolder folder;
  KeyFile made{Role::kServer, NewKeyPair()};
  REQUIRE(WriteKeyFile(folder.path("server.key"), made).ok());
  struct stat facts {};
  REQUIRE(stat(folder.path("server.key").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  const Result<KeyFile> read = ReadKeyFile(folder.path("server.key"));
  REQUIRE(read.status().message() == "");
  CHECK(read->role == Role::kServer);
  CHECK(read->keys.public_key == made.keys.public_key);
  CHECK(read->keys.secret_key.bytes() == made.keys.secret_key.bytes());
}

TEST_CASE("two pairs of keys differ, and a public key follows from its secret one", "[keys]") {
  const KeyPair a = NewKeyPair(), b = NewKeyPair();
  CHECK(a.public_key != b.public_key);
  CHECK(PublicKeyOf(a.secret_key) == a.public_key);
  CHECK(ParsePublicKey("k", TextOf(a.public_key)).value() == a.public_key);
}

TEST_CASE("a text that is no key is refused with its length", "[keys]") {
  CHECK_THAT(ParsePublicKey("the key in x", "abc").status().message(),
             Contains("the key in x is no public key: it has 3 characters"));
  CHECK_FALSE(ParsePublicKey("k", std::string(64, 'g')).ok());
  CHECK_FALSE(ParsePublicKey("k", std::string(66, 'a')).ok());
}

TEST_CASE("a key file is never overwritten", "[keys]") {
  const TempFolder folder;
  const std::string path = folder.Write("worker.key", "mine");
  CHECK_THAT(WriteKeyFile(path, {Role::kWorker, NewKeyPair()}).message(), Contains("would be lost"));
  CHECK(ContentsOf(path) == "mine");
}

TEST_CASE("a key file that is not private, not there or damaged is refused in words, without its secret", "[keys]") {
  const TempFolder folder;
  const std::string path = folder.path("worker.key");
  CHECK_THAT(WhyNot(path), Contains("the key file: cannot read " + path) && Contains("capstan keygen"));
  CHECK_THAT(WhyNot(folder.path()), Contains("is not a file"));
  REQUIRE(WriteKeyFile(path, {Role::kWorker, NewKeyPair()}).ok());
  const std::string whole = ContentsOf(path);
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  CHECK_THAT(WhyNot(path), Contains("run: chmod 600 " + path));
  REQUIRE(chmod(path.c_str(), 0600) == 0);

  const std::string secret = whole.substr(whole.find("secret_key = ") + 14, kKeyDigits);
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    folder.Write("worker.key", text);
    const std::string why = WhyNot(path);
    CHECK_THAT(why, !Contains(secret.substr(0, 8)));
    return why;
  };
  CHECK_THAT(damaged("\"worker\"", "\"owner\""), Contains("its role is none of"));
  CHECK_THAT(damaged(secret, secret.substr(1)), Contains("secret_key does not have 64"));
  CHECK_THAT(damaged(secret, std::string(64, '7')), Contains("do not belong together"));
  CHECK_THAT(damaged("secret_key = ", "secret_key "), Contains("it is no TOML"));
}

TEST_CASE("a process without a key file has no keys", "[keys]") {
  CHECK(ReadKeys("").value() == nullptr);
  CHECK_FALSE(ReadKeys("/nowhere/worker.key").ok());
}

TEST_CASE("a process that has keys writes no core file", "[keys]") {
  const TempFolder folder;
  const std::string path = folder.path("worker.key");
  REQUIRE(WriteKeyFile(path, {Role::kWorker, NewKeyPair()}).ok());
  rlimit before{}, limit{};
  REQUIRE(getrlimit(RLIMIT_CORE, &before) == 0);
  limit = {before.rlim_max, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_CORE, &limit) == 0);
  REQUIRE(ReadKeys("").ok());
  REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
  CHECK(limit.rlim_cur == before.rlim_max);
  REQUIRE(ReadKeys(path).ok());
  REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
  CHECK(limit.rlim_cur == 0);
  CHECK(limit.rlim_max == before.rlim_max);
  setrlimit(RLIMIT_CORE, &before);
}

TEST_CASE("a principal is told by its name, or else by the beginning of its key", "[keys]") {
  PublicKey key;
  key.bytes[0] = 0xab;
  CHECK(Describe({Role::kWorker, "w1", key}) == "worker \"w1\"");
  CHECK(Describe({Role::kReader, "", key}) == "reader of key ab000000");
  CHECK(Describe({Role::kThisUser, ""}) == "this user");
}

TEST_CASE("each role that has a key has a name", "[keys]") {
  for (const Role role : {Role::kCoordinator, Role::kServer, Role::kWorker, Role::kReader, Role::kAdmin}) {
    CHECK(RoleOf(NameOf(role)) == role);
  }
  CHECK_FALSE(RoleOf("anyone"));
  CHECK_FALSE(RoleOf("this user"));
  CHECK_FALSE(RoleOf(""));
}

}  // namespace
}  // namespace capstan
