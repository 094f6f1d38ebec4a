// Clients that are slow, silent or many: whatever they do, /healthz is answered.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "monitoring/descriptor_reserve.h"
#include "monitoring/exporter.h"
#include "monitoring/http_server.h"
#include "tests/catch.h"
#include "tests/monitoring/http_client.h"

namespace capstan::monitoring {
namespace {

constexpr const char* kLocal = "127.0.0.1";
constexpr int kDripping = 200, kWaiting = 70;
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;  // more than the system keeps for a connection

std::unique_ptr<Exporter> StartEmpty(ExporterOptions options = {}) {
  auto exporter = Exporter::Start(std::move(options), std::make_shared<Registry>());
  INFO(exporter.status().ToString());
  REQUIRE(exporter.ok());
  return std::move(exporter).value();
}

HttpResponse SmallPage(const HttpRequest&) { return {.body = "page\n"}; }

// A server whose /healthz is answered at once, and every other path by `page`.
std::unique_ptr<HttpServer> StartServer(HttpTimes times,
                                        std::function<HttpResponse(const HttpRequest&)> page = SmallPage) {
  auto server = HttpServer::Start({.host = kLocal,
                                   .at_once = [](const HttpRequest& request) -> std::optional<HttpResponse> {
                                     if (request.path != "/healthz") return std::nullopt;
                                     return HttpResponse{.body = "ok\n"};
                                   },
                                   .page = std::move(page),
                                   .times = times,
                                   .warn = [](const std::string&) {}});
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return std::move(server).value();
}

std::string AddressOf(const HttpServer& server) { return std::string(kLocal) + ":" + std::to_string(server.port()); }

constexpr HttpTimes kEndless{std::chrono::hours(24), std::chrono::hours(24)};

// Sends a byte on each connection again and again, until the object is gone.
class Dripping {
 public:
  explicit Dripping(const std::list<HttpClient>& clients)
      : done_(std::async(std::launch::async, [this, &clients] {
          while (over_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
            for (const HttpClient& client : clients) (void)client.Send("1");
          }
        })) {}
  ~Dripping() {
    stop_.set_value();
    done_.wait();
  }

 private:
  std::promise<void> stop_;
  std::future<void> over_{stop_.get_future()};
  std::future<void> done_;
};

// Takes all descriptors of this process, until the object is gone.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{std::min<rlim_t>(before_.rlim_cur, 512), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) taken_.push_back(fd);
  }
  ~NoDescriptors() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace

TEST_CASE("a body of which a byte comes now and then holds up nobody", "[monitoring]") {
  const auto exporter = StartEmpty();
  const std::string address = exporter->address();
  std::list<HttpClient> clients;
  for (int i = 0; i < kDripping; ++i) {
    const char* const methods[] = {"GET", "POST"};
    clients.emplace_back(address);
    REQUIRE(clients.back().Send(std::string(methods[i % 2]) + " /metrics HTTP/1.1\r\nHost: " + address +
                                "\r\nContent-Length: 1000000\r\n\r\n"));
  }
  {
    const Dripping dripping(clients);
    CHECK(Get(address, "/healthz").ends_with("ok\n"));
    CHECK(Get(address, "/metrics").starts_with("HTTP/1.1 200 "));
  }
  for (const HttpClient& client : clients) CHECK(client.Rest().starts_with("HTTP/1.1 413 "));  // and it is closed
}

TEST_CASE("a head of which a byte comes now and then holds up nobody", "[monitoring]") {
  const auto exporter = StartEmpty();
  const std::string address = exporter->address();
  std::list<HttpClient> clients;
  for (int i = 0; i < kDripping; ++i) {
    clients.emplace_back(address);
    REQUIRE(clients.back().Send("GET /metrics HTTP/1.1\r\nX: "));
  }
  const Dripping dripping(clients);
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
  CHECK(Get(address, "/metrics").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a page that waits does not hold up /healthz, and is answered when it is there", "[monitoring]") {
  std::promise<void> let_go;
  const std::shared_future<void> free = let_go.get_future().share();
  const auto exporter = StartEmpty({.status_json = [free] {
    free.wait();
    return std::string("{}");
  }});
  const std::string address = exporter->address();
  std::list<HttpClient> clients;
  for (int i = 0; i < kWaiting; ++i) {
    clients.emplace_back(address);
    REQUIRE(clients.back().Send("GET / HTTP/1.1\r\nHost: " + address + "\r\n\r\n"));
  }
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
  let_go.set_value();
  for (const HttpClient& client : clients) CHECK(client.Rest().starts_with("HTTP/1.1 200 "));
}

TEST_CASE("of too many silent connections the oldest are closed, and none that has asked", "[monitoring]") {
  std::promise<void> let_go;
  const std::shared_future<void> free = let_go.get_future().share();
  const auto server = StartServer(kEndless, [free](const HttpRequest& request) {
    free.wait();
    return SmallPage(request);
  });
  const std::string address = AddressOf(*server);
  const HttpClient asked(address);
  REQUIRE(asked.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n"));
  REQUIRE(Get(address, "/healthz").ends_with("ok\n"));  // so the server has read that request
  constexpr std::size_t kMore = 40;
  std::list<HttpClient> silent;
  for (std::size_t i = 0; i < kConnectionsMax + kMore; ++i) {
    silent.emplace_back(address, "127.0.0." + std::to_string(2 + i % 4));  // none has more than an address may have
    REQUIRE(silent.back().Send("GET /healthz HTTP/1.1\r\nHost"));
  }
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
  // Beside them there were the one that has asked, and the last one.
  const auto closed = static_cast<std::size_t>(
      std::count_if(silent.begin(), silent.end(), [](const HttpClient& client) { return !client.is_silent(); }));
  CHECK(closed == kMore + 2);
  CHECK_FALSE(std::next(silent.begin(), kMore + 1)->is_silent());
  CHECK(std::next(silent.begin(), kMore + 2)->is_silent());
  CHECK(asked.is_silent());
  let_go.set_value();
  CHECK(asked.Rest().ends_with("page\n"));
}

TEST_CASE("of too many connections of one address the oldest are closed, and none of another", "[monitoring]") {
  const auto server = StartServer(kEndless);
  const std::string address = AddressOf(*server), greedy = "127.0.0.2";
  const HttpClient other(address, "127.0.0.3");
  REQUIRE(other.connected());
  constexpr std::size_t kMore = 10;
  std::list<HttpClient> silent;
  for (std::size_t i = 0; i < kConnectionsPerAddressMax + kMore; ++i) {
    silent.emplace_back(address, greedy);
    REQUIRE(silent.back().Send("GET /healthz HTTP/1.1\r\nHost"));
  }
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
  const auto closed = static_cast<std::size_t>(
      std::count_if(silent.begin(), silent.end(), [](const HttpClient& client) { return !client.is_silent(); }));
  CHECK(closed == kMore);
  CHECK_FALSE(std::next(silent.begin(), kMore - 1)->is_silent());
  CHECK(std::next(silent.begin(), kMore)->is_silent());
  CHECK(other.is_silent());
  CHECK(HttpClient(address, greedy).Ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("ok\n"));
}

TEST_CASE("connections that are renewed as they are closed do not hold up /healthz", "[monitoring]") {
  const auto server = StartServer(kEndless);
  const std::string address = AddressOf(*server);
  std::promise<void> stop;
  std::future<void> over = stop.get_future();
  const auto renewing = std::async(std::launch::async, [&] {
    std::list<HttpClient> clients;
    while (over.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      clients.emplace_back(address);
      (void)clients.back().Send("GET /healthz HTTP/1.1\r\nX: ");
      if (clients.size() > kConnectionsMax) clients.pop_front();
    }
  });
  for (int i = 0; i < 5; ++i) CHECK(Get(address, "/healthz").ends_with("ok\n"));
  stop.set_value();
  renewing.wait();
}

TEST_CASE("a client that is late with its request is closed without an answer", "[monitoring]") {
  const auto server = StartServer({std::chrono::milliseconds(1), std::chrono::hours(24)});
  const HttpClient client(AddressOf(*server));
  (void)client.Send("GET /healthz HTTP/1.1\r\n");
  CHECK(client.Rest().empty());
}

TEST_CASE("a page may take longer than a client has for its request", "[monitoring]") {
  std::promise<void> let_go;
  const std::shared_future<void> free = let_go.get_future().share();
  const auto server =
      StartServer({std::chrono::milliseconds(50), std::chrono::hours(24)}, [free](const HttpRequest& request) {
        free.wait();
        return SmallPage(request);
      });
  const HttpClient asked(AddressOf(*server));
  REQUIRE(asked.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n"));
  const HttpClient later(AddressOf(*server));
  CHECK(later.Rest().empty());  // its time is over, so that of the first would be, too
  CHECK(asked.is_silent());
  let_go.set_value();
  CHECK(asked.Rest().ends_with("page\n"));
}

TEST_CASE("a client that does not take its answer is closed", "[monitoring]") {
  const auto server = StartServer({std::chrono::hours(24), std::chrono::milliseconds(1)}, [](const HttpRequest&) {
    return HttpResponse{.body = std::string(kLargeBytes, 'x')};
  });
  const HttpClient client(AddressOf(*server));
  REQUIRE(client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(client.Rest().size() < kLargeBytes);
}

TEST_CASE("a process without descriptors answers /healthz, also behind silent connections", "[monitoring]") {
  const auto exporter = StartEmpty();
  const std::string address = exporter->address();
  std::list<HttpClient> silent(2 * DescriptorReserve::kReserved);
  HttpClient probe, after;
  {
    const NoDescriptors none;
    for (HttpClient& client : silent) {
      client.Connect(address);
      REQUIRE(client.connected());
    }
    probe.Connect(address);
    CHECK(probe.Ask("GET /healthz HTTP/1.1\r\nHost: " + address + "\r\n\r\n").ends_with("ok\n"));
  }
  after.Connect(address);
  CHECK(after.Ask("GET /metrics HTTP/1.1\r\nHost: " + address + "\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a server that ends closes the connections that it has", "[monitoring]") {
  auto server = StartServer(kEndless);
  const HttpClient silent(AddressOf(*server)), half(AddressOf(*server));
  REQUIRE(half.Send("GET /healthz HTTP/1.1\r\n"));
  REQUIRE(Get(AddressOf(*server), "/page").ends_with("page\n"));
  server.reset();
  CHECK(silent.Rest().empty());
  CHECK(half.Rest().empty());
}

}  // namespace capstan::monitoring
