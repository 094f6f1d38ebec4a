#include "cli/launch/script_broker.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

// A script's end of a connection to the broker.
class Script {
 public:
  explicit Script(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Script() { close(fd_); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void Say(const std::string& text) const {
    REQUIRE(send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  // Returns what has arrived; "closed" if the broker closed the connection.
  std::string Heard() const {
    char bytes[256];
    const ssize_t size = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    return size == 0 ? "closed" : size < 0 ? "" : std::string(bytes, static_cast<std::size_t>(size));
  }

  bool connected = false;

 private:
  const int fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

struct Desk {
  ScriptBroker Make() const {
    Result<ScriptBroker> made = ScriptBroker::Create(path);
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  const TempFolder scratch;
  const std::string path = scratch.path("scripts");
};

TEST_CASE("each script that asks is answered once the job's coordinator is known", "[cli][script_broker]") {
  const Desk desk;
  ScriptBroker broker = desk.Make();
  const Script second(desk.path), first(desk.path);
  second.Say("{\"index\": 1, \"facts\": {\"optimizer\": \"sgd\"}}\n");
  broker.Serve();
  CHECK_FALSE(broker.FactsOf(0));
  first.Say("{\"index\": 0, \"facts\": {\"opti");
  broker.Serve();
  CHECK_FALSE(broker.FactsOf(0));
  first.Say("mizer\": \"adam\"}}\n");
  broker.Serve();
  CHECK(broker.FactsOf(0) == "{\"optimizer\":\"adam\"}");
  CHECK(broker.FactsOf(1) == "{\"optimizer\":\"sgd\"}");
  CHECK(first.Heard().empty());
  broker.Announce("ipc:///run/sockets/coordinator");
  CHECK(first.Heard() == "ipc:///run/sockets/coordinator\n");
  CHECK(second.Heard() == "ipc:///run/sockets/coordinator\n");
  CHECK(first.Heard() == "closed");
  const Script late(desk.path);
  late.Say("{\"index\": 2, \"facts\": {}}\n");
  broker.Serve();
  CHECK(late.Heard() == "ipc:///run/sockets/coordinator\n");
}

TEST_CASE("a connection that asks nothing, or too much, is closed", "[cli][script_broker]") {
  const Desk desk;
  ScriptBroker broker = desk.Make();
  for (const std::string& bad :
       {std::string("hello\n"), std::string("[]\n"), std::string("{\"index\": -1, \"facts\": {}}\n"),
        std::string("{\"index\": 0}\n"), std::string(ScriptBroker::kLineBytesMax + 1, 'x')}) {
    const Script script(desk.path);
    script.Say(bad);
    broker.Serve();
    INFO(bad.substr(0, 40));
    CHECK(script.Heard() == "closed");
  }
  const Script twice(desk.path);
  twice.Say("{\"index\": 0, \"facts\": {}}\n");
  broker.Serve();
  twice.Say("{\"index\": 0, \"facts\": {}}\n");
  broker.Serve();
  CHECK(twice.Heard() == "closed");
  CHECK_FALSE(broker.FactsOf(0));
}

TEST_CASE("a script that has ended is forgotten", "[cli][script_broker]") {
  const Desk desk;
  ScriptBroker broker = desk.Make();
  {
    const Script script(desk.path);
    script.Say("{\"index\": 0, \"facts\": {}}\n");
    broker.Serve();
    CHECK(broker.FactsOf(0));
  }
  broker.Serve();
  CHECK_FALSE(broker.FactsOf(0));
  broker.Announce("127.0.0.1:5");
}

// Takes the descriptors that this process has left.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    const rlimit limit{static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("without a descriptor for a connection the launcher does not poll for it, and takes it later",
          "[cli][script_broker]") {
  const Desk desk;
  ScriptBroker broker = desk.Make();
  const Script script(desk.path);
  script.Say("{\"index\": 0, \"facts\": {}}\n");
  std::vector<pollfd> fds;
  {
    const NoDescriptorLeft none;
    broker.Serve();
    broker.AddTo(&fds);
  }
  CHECK(fds.empty());
  broker.Serve();
  CHECK(broker.FactsOf(0));
  broker.AddTo(&fds);
  CHECK(fds.size() == 2);
}

TEST_CASE("the socket takes the place of one that a killed launcher left, and goes with the broker",
          "[cli][script_broker]") {
  const Desk desk;
  {
    const ScriptBroker broker = desk.Make();
    CHECK(Script(desk.path).connected);
    const ScriptBroker next = desk.Make();
    CHECK(Script(desk.path).connected);
  }
  CHECK_FALSE(std::filesystem::exists(desk.path));
  CHECK_FALSE(ScriptBroker::Create(desk.scratch.path("no/folder")).ok());
  CHECK_FALSE(ScriptBroker::Create("/" + std::string(200, 'x')).ok());
}

}  // namespace
}  // namespace capstan::cli
