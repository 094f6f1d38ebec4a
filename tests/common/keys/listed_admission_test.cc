// Tests of allow lists, and of the file that they come from.
#include "common/keys/listed_admission.h"

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/keys/allow_list.h"
#include "tests/catch.h"
#include "tests/common/keys/key_of.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using std::chrono::sys_days;
using testing::KeyOf;
using testing::TempFolder;

constexpr AllowList::Time kNow = sys_days(std::chrono::year(2026) / 12 / 31) + std::chrono::hours(12);

std::string Section(const std::string& label, std::uint8_t key, const std::string& role, const std::string& more = "") {
  return "[" + label + "]\nkey = \"" + TextOf(KeyOf(key)) + "\"\nrole = \"" + role + "\"\n" + more + "\n";
}

AllowList Parse(const std::string& text) { return AllowList::Parse(text, "allow.toml").value(); }
std::string Fault(const std::string& text) { return AllowList::Parse(text, "allow.toml").status().message(); }

TEST_CASE("an allow list gives each key its role and name", "[keys]") {
  const AllowList list = Parse(Section("c", 1, "coordinator") + Section("w", 2, "worker", "name = \"worker-1\""));
  CHECK(list.size() == 2);
  CHECK(list.Find(KeyOf(1), kNow) == Principal{Role::kCoordinator, "", KeyOf(1)});
  CHECK(list.Find(KeyOf(2), kNow) == Principal{Role::kWorker, "worker-1", KeyOf(2)});
  CHECK_FALSE(list.Find(KeyOf(3), kNow));
  CHECK(list.WhyNot(KeyOf(3), kNow) == "is not in the allow list");
}

TEST_CASE("a worker's key without a name knows which names belong to others", "[keys]") {
  const AllowList list = Parse(Section("a", 1, "worker") + Section("b", 2, "worker", "name = \"w1\"") +
                               Section("c", 3, "server", "name = \"7\"") + Section("d", 4, "reader"));
  REQUIRE(list.Find(KeyOf(1), kNow)->reserved_names != nullptr);
  CHECK(*list.Find(KeyOf(1), kNow)->reserved_names == std::set<std::string>{"w1"});
  for (std::uint8_t key = 2; key <= 4; ++key) CHECK(list.Find(KeyOf(key), kNow)->reserved_names == nullptr);
}

TEST_CASE("a worker's key may have a number of sessions", "[keys]") {
  const AllowList list = Parse(Section("a", 1, "worker", "sessions = 3") + Section("b", 2, "worker"));
  CHECK(list.Find(KeyOf(1), kNow)->sessions_max == 3);
  CHECK(list.Find(KeyOf(2), kNow)->sessions_max == 0);
  for (const char* value : {"0", "-1", "4097", "\"3\"", "1.5"}) {
    CHECK_THAT(Fault(Section("a", 1, "worker", "sessions = " + std::string(value))),
               Contains("allow.toml:4:12: sessions is of a worker's key, and takes a number from 1 to 4096"));
  }
  CHECK_THAT(Fault(Section("a", 1, "reader", "sessions = 3")), Contains("sessions is of a worker's key"));
}

TEST_CASE("a key is allowed until it expires", "[keys]") {
  const AllowList list = Parse(Section("a", 1, "worker", "expires = \"2026-12-31T12:00:01Z\"") +
                               Section("b", 2, "worker", "expires = \"2026-12-31\""));
  CHECK(list.Find(KeyOf(1), kNow));
  CHECK_FALSE(list.Find(KeyOf(1), kNow + std::chrono::seconds(1)));
  CHECK_FALSE(list.Find(KeyOf(2), kNow));
  CHECK(list.Find(KeyOf(2), kNow - std::chrono::hours(13)));
  CHECK(list.WhyNot(KeyOf(2), kNow) == "of [b] has expired");
}

TEST_CASE("what is wrong in an allow list is told with its place", "[keys]") {
  CHECK_THAT(Fault("key = \"x\""), Contains("allow.toml:1:1: each key has a section of its own"));
  CHECK_THAT(Fault("[a]\nrole = \"worker\""), Contains("allow.toml:1:") && Contains("key is missing"));
  CHECK_THAT(Fault("[a]\nkey = \"12\"\nrole = \"worker\""), Contains("allow.toml:2:7: key is no public key: it has 2"));
  CHECK_THAT(Fault(Section("a", 1, "boss")), Contains("allow.toml:3:8: role takes coordinator"));
  CHECK_THAT(Fault(Section("a", 1, "worker", "quota = \"3\"")), Contains("unknown key \"quota\""));
  CHECK_THAT(Fault(Section("a", 1, "server", "name = \"s1\"")),
             Contains("allow.toml:4:8: a server's name is its number"));
  CHECK_THAT(Fault(Section("a", 1, "worker", "name = 3")), Contains("name takes a text in quotes"));
  CHECK_THAT(Fault(Section("a", 1, "worker") + Section("b", 1, "reader")), Contains("[a] has this key already"));
  for (const char* time :
       {"soon", "2026-13-01", "2026-02-30", "2026-12-31T25:00:00Z", "2026-12-31T12:00:00", "2026-12-31 "}) {
    CHECK_THAT(Fault(Section("a", 1, "worker", "expires = \"" + std::string(time) + "\"")),
               Contains("expires takes a time"));
  }
}

TEST_CASE("an allow list has a bound", "[keys]") {
  std::string text;
  for (std::size_t i = 0; i <= kAllowedKeysMax; ++i) {
    PublicKey key;
    key.bytes[0] = static_cast<std::uint8_t>(i >> 8);
    key.bytes[1] = static_cast<std::uint8_t>(i);
    text += "[k" + std::to_string(i) + "]\nkey = \"" + TextOf(key) + "\"\nrole = \"worker\"\n";
  }
  REQUIRE(text.size() > 0);
  CHECK_FALSE(AllowList::Parse(text, "allow.toml").ok());
}

TEST_CASE("a list that has changed is read again, and one that is damaged changes nothing", "[keys]") {
  const TempFolder folder;
  std::chrono::steady_clock::time_point now{};
  std::vector<std::string> notices;
  const std::string path = folder.Write("allow.toml", Section("a", 1, "worker"));
  const auto admission = ListedAdmission::Open(path, [&](const std::string& text) { notices.push_back(text); }).value();
  const std::uint64_t first = admission->version();
  const auto look = [&] { admission->Refresh(now += std::chrono::seconds(1)); };
  look();
  CHECK(admission->version() == first);

  folder.Write("allow.toml", Section("a", 1, "reader"));  // half of it
  look();
  folder.Write("allow.toml", Section("a", 1, "reader") + Section("b", 2, "worker"));
  look();
  admission->Refresh(now);  // too soon
  CHECK(admission->version() == first);
  look();
  CHECK(admission->version() != first);
  CHECK(admission->Find(KeyOf(1), kNow) == Principal{Role::kReader, "", KeyOf(1)});
  CHECK(admission->Find(KeyOf(2), kNow));
  CHECK_THAT(notices.back(), Contains("was read again: 2 keys"));

  folder.Write("allow.toml", "[a]\nrole = \"worker\"");
  for (int i = 0; i < 4; ++i) look();
  CHECK(admission->Find(KeyOf(2), kNow));
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices.back(), Contains("the former allow list stays in force: ") && Contains("allow.toml:1:") &&
                                 Contains("key is missing"));

  folder.Write("allow.toml", "");
  for (int i = 0; i < 4; ++i) look();
  CHECK(admission->Find(KeyOf(2), kNow));
  CHECK_THAT(notices.back(), Contains("allows no key"));

  folder.Write("allow.toml", Section("b", 2, "worker"));
  for (int i = 0; i < 2; ++i) look();
  CHECK_FALSE(admission->Find(KeyOf(1), kNow));
  CHECK(admission->WhyNot(KeyOf(1), kNow) == "is not in the allow list");
}

TEST_CASE("a list that could not be read is taken as soon as it can, and its loss is told once", "[keys]") {
  const TempFolder folder;
  std::chrono::steady_clock::time_point now{};
  std::vector<std::string> notices;
  const std::string path = folder.Write("allow.toml", Section("a", 1, "worker") + Section("b", 2, "worker"));
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  const auto admission = ListedAdmission::Open(path, [&](const std::string& text) { notices.push_back(text); }).value();
  const auto look = [&] {
    for (int i = 0; i < 4; ++i) admission->Refresh(now += std::chrono::seconds(1));
  };
  folder.Write("allow.toml", Section("b", 2, "worker"));
  REQUIRE(chmod(path.c_str(), 0620) == 0);
  look();
  CHECK(admission->Find(KeyOf(1), kNow));
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], Contains("run: chmod 600"));
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  look();
  CHECK_FALSE(admission->Find(KeyOf(1), kNow));

  REQUIRE(unlink(path.c_str()) == 0);
  look();
  CHECK(admission->Find(KeyOf(2), kNow));
  REQUIRE(notices.size() == 3);
  CHECK_THAT(notices[2], Contains("the former allow list stays in force: cannot read the allow list"));
}

TEST_CASE("who is not let in is told once a second, with why", "[keys]") {
  const TempFolder folder;
  std::vector<std::string> notices;
  const std::string path = folder.Write("allow.toml", Section("a", 1, "worker", "expires = \"2026-12-31\""));
  const auto admission = ListedAdmission::Open(path, [&](const std::string& text) { notices.push_back(text); }).value();
  for (int i = 0; i < 3; ++i) admission->NoteRefused(KeyOf(1), "10.0.0.9", kNow);
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], Contains("a process at 10.0.0.9 was not let in") && Contains("of [a] has expired"));
  admission->NoteRefused(KeyOf(2), "10.0.0.9", kNow + std::chrono::seconds(1));
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[1], Contains("is not in the allow list (3 attempts since the last line)"));
  CHECK(admission->TakeRefusals() == std::vector<std::string>{notices[0]});
  CHECK(admission->TakeRefusals().empty());
  admission->NoteRefused(KeyOf(2), "10.0.0.9", kNow + std::chrono::minutes(1));
  const std::vector<std::string> kept = admission->TakeRefusals();
  REQUIRE(kept.size() == 1);
  CHECK_THAT(kept[0], Contains("is not in the allow list (4 attempts since the last line)"));
}

TEST_CASE("of refusals that nobody takes a bounded number is kept", "[keys]") {
  const TempFolder folder;
  const auto admission = ListedAdmission::Open(folder.Write("allow.toml", Section("a", 1, "worker")), {}).value();
  for (std::size_t i = 0; i < 2 * ListedAdmission::kRefusalsMax; ++i) {
    admission->NoteRefused(KeyOf(2), "10.0.0.9", kNow + std::chrono::minutes(i));
  }
  CHECK(admission->TakeRefusals().size() == ListedAdmission::kRefusalsMax);
}

TEST_CASE("no message about an allow list shows a line of it, and nobody else may write it", "[keys]") {
  const TempFolder folder;
  for (const std::string& fault :
       {Section("a", 1, "worker", "secret_key = \"5555\""), std::string("[a]\nsecret_key = \"5555"),
        Section("a", 1, "worker", "name = [\"5555\"]")}) {
    CHECK_THAT(Fault(fault), Contains("allow.toml") && !Contains("5555"));
  }
  const std::string path = folder.Write("allow.toml", Section("a", 1, "worker"));
  REQUIRE(chmod(path.c_str(), 0620) == 0);
  CHECK_THAT(ListedAdmission::Open(path, {}).status().message(),
             Contains("other users may change the allow list " + path));
}

TEST_CASE("an allow list that is not there is an error at the start", "[keys]") {
  const TempFolder folder;
  const std::string path = folder.path("allow.toml");
  CHECK_THAT(ListedAdmission::Open(path, {}).status().message(), Contains("cannot read the allow list " + path));
}

}  // namespace
}  // namespace capstan
