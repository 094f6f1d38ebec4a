// How a mesh over Gloo is formed, and why forming it may fail.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>

#include "common/base/process_address.h"
#include "tests/worker/collective/connections.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;

// A rendezvous that ranks 0 and 1 of three use. Both have given their bytes before the deadline of either can pass, so
// only rank 2 is missing.
class BothCome : public Rendezvous {
 public:
  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    static_cast<void>(all_.Exchange(rank, bytes, Clock::now()));
    come_.Change([](int& come) { ++come; });
    come_.AwaitUntil(In(kPatience), [](int come) { return come == 2; });
    return all_.Exchange(rank, std::move(bytes), deadline);
  }

 private:
  InProcessRendezvous all_{3, NameOfTestRank};
  Guarded<int> come_;
};

// Shows both ranks' addresses to `watch` before either of them has them.
class Watched : public Rendezvous {
 public:
  using Watch = std::function<void(const std::vector<std::string>& addresses)>;
  explicit Watched(Watch watch) : watch_(std::move(watch)) {}

  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> all, both_.Exchange(rank, std::move(bytes), deadline));
    if (rank == 0) watch_(all);
    return watched_.Exchange(rank, "", deadline).ok() ? Result(all) : Result<std::vector<std::string>>(Timeout(""));
  }

 private:
  InProcessRendezvous both_{2, NameOfTestRank}, watched_{2, NameOfTestRank};
  const Watch watch_;
};

// Returns -1 if the connection is refused.
int ConnectAsStranger(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

TEST_CASE("a mesh that not all ranks come to is not formed, and says who is missing", "[collective]") {
  BothCome rendezvous;
  std::vector<Status> statuses(2);
  const Deadline deadline = In(std::chrono::milliseconds(100));
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 3, "127.0.0.1", NameOfTestRank}, &rendezvous, deadline).status();
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("rank 2 (w-2)") && !Contains("rank 0") && !Contains("rank 1"));
  }
}

TEST_CASE("addresses of too few ranks are refused by their number", "[collective]") {
  struct Forgetful : Rendezvous {
    Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
      return std::vector<std::string>{bytes};
    }
  } rendezvous;
  const Status status = CreateGlooMesh({0, 3, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("1 of them to 3 ranks"));
}

TEST_CASE("an address that is not of this machine is refused by name", "[collective]") {
  InProcessRendezvous rendezvous(2);
  const Status status = CreateGlooMesh({0, 2, "192.0.2.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kUnreachable);
  CHECK_THAT(status.message(), Contains("192.0.2.1"));
  CHECK(CreateGlooMesh({2, 2, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status().code() == Code::kInvalid);
}

// Sends bytes, and waits until the other end closes the connection. Returns what came back.
std::string SendAsStranger(int fd, const std::string& bytes) {
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string back;
  for (char byte = 0; recv(fd, &byte, 1, 0) > 0;) back += byte;
  close(fd);
  return back;
}

Status ReduceOnes(Group& group) {
  std::vector<float> data(1000, 1.0F);
  CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, In(kPatience)));
  const auto sum = static_cast<float>(group.size());
  return data == std::vector<float>(1000, sum) ? Status() : Corrupt("the sum is wrong");
}

TEST_CASE("strangers at a rank's port while a mesh is formed do not get in, and do not end it", "[collective]") {
  std::vector<int> silent;
  std::vector<std::thread> strangers;
  Guarded<std::vector<std::string>> came_back;
  // Both ranks listen; none of them has the other one's address yet.
  Watched rendezvous([&](const std::vector<std::string>& addresses) {
    for (const std::string& text : addresses) {
      const std::string address = WithoutKey(text);
      for (int i = 0; i < 3; ++i) silent.push_back(ConnectAsStranger(address));
      for (const std::size_t count : {1u, 39u, 40u, 48u, 5000u}) {
        // Connected while the rank listens: it stops as soon as the mesh is formed, whatever a thread has done by then.
        const int fd = ConnectAsStranger(address);
        CHECK(fd >= 0);
        strangers.emplace_back([=, &came_back] {
          const std::string bytes = SendAsStranger(fd, std::string(count, '\x55'));
          came_back.With([&](auto& all) { all.push_back(bytes); });
        });
      }
    }
  });
  std::vector<std::shared_ptr<Mesh>> meshes(2);
  RunThreads(2, [&](int rank) {
    auto mesh = CreateGlooMesh({rank, 2, "127.0.0.1", NameOfTestRank}, &rendezvous, In(kPatience));
    if (mesh.ok()) meshes[static_cast<std::size_t>(rank)] = *mesh;
  });
  REQUIRE(meshes[0]);
  REQUIRE(meshes[1]);
  for (std::thread& stranger : strangers) stranger.join();
  CHECK(came_back.With([](const auto& all) { return all; }) == std::vector<std::string>(10));
  for (const int fd : silent) {
    CHECK(fd >= 0);
    close(fd);
  }
  Groups(std::move(meshes)).RunWell(ReduceOnes);
}

TEST_CASE("a rank that does not know the group's secret is not let in, and named", "[collective]") {
  struct Deceived : Rendezvous {  // rank 1 is told another share of rank 0 than rank 0 has
    Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
      CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> all, both.Exchange(rank, std::move(bytes), deadline));
      if (rank == 1) all[0] = WithKey(WithoutKey(all[0]), std::string(64, 'a'));
      return all;
    }
    InProcessRendezvous both{2, NameOfTestRank};
  } rendezvous;
  std::vector<Status> statuses(2);
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 2, "127.0.0.1", NameOfTestRank}, &rendezvous, In(std::chrono::seconds(1))).status();
  });
  CHECK_THAT(statuses[0].message(), Contains("no connection came in time from rank 1 (w-1)"));
  CHECK_THAT(statuses[1].message(), Contains("cannot connect to rank 0 (w-0)") && Contains("does not prove"));
}

TEST_CASE("a rank whose address has a host's name is refused, because a lookup could take for ever", "[collective]") {
  struct Renamed : Rendezvous {  // rank 1 is told another address of rank 0
    Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
      CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> all, both.Exchange(rank, std::move(bytes), deadline));
      if (rank == 1) all[0].replace(0, all[0].find(':'), "localhost");
      return all;
    }
    InProcessRendezvous both{2, NameOfTestRank};
  } rendezvous;
  std::vector<Status> statuses(2);
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 2, "127.0.0.1", NameOfTestRank}, &rendezvous, In(std::chrono::seconds(1))).status();
  });
  CHECK_THAT(statuses[1].message(), Contains("cannot connect to rank 0 (w-0): it published localhost:") &&
                                        Contains("whose host is not in numbers"));
}

TEST_CASE("bytes on a member's connection that are not Gloo's end the group, and no process", "[collective]") {
  const std::set<int> before = Connections();
  Groups groups(CreateMeshes("gloo", 2, std::chrono::milliseconds(200)));
  groups.RunWell(ReduceOnes);
  // A message for a receive that nobody has begun: Gloo throws in its own thread.
  const std::array<std::uint64_t, 7> foreign = {56, 1, 77, 0, 8, 0, 5};
  std::vector<int> ends = ConnectionsSince(before);
  REQUIRE(ends.size() == 6);
  for (int& end : ends) end = dup(end);  // Gloo closes its own at the first of these messages
  for (const int end : ends) (void)send(end, foreign.data(), sizeof foreign, MSG_NOSIGNAL);
  for (const int end : ends) close(end);
  for (const Status& status : groups.Run([](Group& group) {
         std::vector<float> data(1 << 20);
         for (;;) CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, In(kPatience)));
       })) {
    CHECK(status.code() == Code::kUnreachable);
  }
}

}  // namespace
}  // namespace capstan::collective
