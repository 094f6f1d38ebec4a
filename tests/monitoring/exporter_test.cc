#include "monitoring/exporter.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <list>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/compared_with_nothing.h"
#include "tests/monitoring/http_client.h"
#include "tests/monitoring/planted_metrics.h"
#include "tests/nonlocal_bind.h"
#include "tests/temp_folder.h"

namespace capstan::monitoring {
namespace {

std::shared_ptr<Registry> PlantedRegistry() {
  auto registry = std::make_shared<Registry>();
  PlantMetrics(*registry);
  return registry;
}

std::unique_ptr<Exporter> StartOrFail(ExporterOptions options = {}) {
  auto exporter = Exporter::Start(std::move(options), PlantedRegistry());
  INFO(exporter.status().ToString());
  REQUIRE(exporter.ok());
  return std::move(exporter).value();
}

void CheckRefused(const std::string& listen) {
  const auto exporter = Exporter::Start({.listen = listen}, PlantedRegistry());
  CAPTURE(listen);
  REQUIRE_FALSE(exporter.ok());
  CAPTURE(exporter.status().message());
  CHECK(exporter.status().code() == Code::kInvalid);
  CHECK(Contains(exporter.status().message(), listen));
  CHECK(Contains(exporter.status().message(), "metrics.listen"));
}

// Returns the numbers at the ends of those lines of a scrape's answer that begin with `prefix`, in order.
std::vector<std::uint64_t> NumbersOf(const std::string& answer, const std::string& prefix) {
  std::vector<std::uint64_t> numbers;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) numbers.push_back(std::stoull(line.substr(line.rfind(' ') + 1)));
  }
  return numbers;
}

// What several scrapes saw of a histogram while it was written.
struct Seen {
  std::uint64_t first = 0, last = 0;  // the histogram's count
  std::string wrong;                  // the first answer with inconsistent numbers
};

constexpr const char* kHistogram = "capstan_server_apply_duration_seconds";

// Whether the numbers in the answer are consistent. All observations are below the highest bound, so the highest
// bound's bucket, the bucket +Inf and the count are the same number, unless they were read at different moments.
bool IsWhole(const std::string& answer) {
  const std::vector<std::uint64_t> buckets = NumbersOf(answer, std::string(kHistogram) + "_bucket{");
  const std::vector<std::uint64_t> counts = NumbersOf(answer, std::string(kHistogram) + "_count");
  return buckets.size() > 2 && counts.size() == 1 && std::is_sorted(buckets.begin(), buckets.end()) &&
         buckets[buckets.size() - 2] == counts.front() && buckets.back() == counts.front() &&
         Contains(answer, "le=\"+Inf\"} " + std::to_string(counts.front())) && Contains(answer, "\nprocess_open_fds ");
}

// Scrapes at least five times, and until the count has grown since the first answer: then the actor has written
// meanwhile.
Seen ScrapeWhileWritten(const std::string& address) {
  Seen seen;
  for (int i = 0; i < 1000 && (i < 5 || seen.last == seen.first); ++i) {
    const std::string answer = Get(address, "/metrics");
    if (!IsWhole(answer)) {
      seen.wrong = answer.empty() ? "no answer" : answer;
      return seen;
    }
    seen.last = NumbersOf(answer, std::string(kHistogram) + "_count").front();
    if (i == 0) seen.first = seen.last;
  }
  return seen;
}

}  // namespace

TEST_CASE("port 0 takes a free port and /metrics answers there with what the actors counted", "[monitoring]") {
  auto registry = std::make_shared<Registry>();
  const auto shard = registry->Create<ShardMetrics>();
  auto exporter = Exporter::Start({}, registry);
  REQUIRE(exporter.ok());
  const std::string address = exporter.value()->address();
  CHECK(address.starts_with("127.0.0.1:"));
  CHECK_FALSE(address.ends_with(":0"));

  shard->pushes_staged.Add(11);
  const std::string first = Get(address, "/metrics");
  CAPTURE(first);
  CHECK(first.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(Contains(first, "Content-Type: text/plain; version=0.0.4"));
  CHECK(Contains(first, "\ncapstan_server_pushes_total{outcome=\"staged\"} 11\n"));

  shard->pushes_staged.Add(1);
  (void)registry->Create<WorkerMetrics>();
  const std::string second = Get(address, "/metrics");
  CHECK(Contains(second, "\ncapstan_server_pushes_total{outcome=\"staged\"} 12\n"));
  CHECK(Contains(second, "\ncapstan_worker_steps_total 0\n"));
}

TEST_CASE("an occupied port is kInvalid and the message names the address and what to do", "[monitoring]") {
  const auto first = StartOrFail();
  const auto second = Exporter::Start({.listen = first->address()}, PlantedRegistry());
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == Code::kInvalid);
  CAPTURE(second.status().message());
  CHECK(Contains(second.status().message(), first->address()));
  CHECK(Contains(second.status().message(), ": the address is in use by another process; stop that, or set "));
  CHECK(Contains(second.status().message(), "metrics.listen"));
  CHECK(Get(first->address(), "/healthz").ends_with("\r\n\r\nok\n"));
}

TEST_CASE("a listen address that is not host:port is refused with the right form", "[monitoring]") {
  for (const char* listen : {"", "9100", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:91s",
                             ":9100", "localhost:9100", "127.0.0.1:1,127.0.0.1:2"}) {
    CheckRefused(listen);
  }
}

TEST_CASE("an address of another machine is refused with the right form", "[monitoring]") {
  if (testing::BindsAddressesOfOthers()) {
    return testing::ComparedWithNothing("metrics at an address of another machine", "ip_nonlocal_bind is set here");
  }
  const testing::TempFolder folder;
  const std::string token = folder.Write("token", "0123456789abcdef");
  chmod(token.c_str(), 0600);
  const Status status =
      Exporter::Start({.listen = "203.0.113.7:9100", .token_file = token}, PlantedRegistry()).status();
  CAPTURE(status.message());
  CHECK(status.code() == Code::kInvalid);
  CHECK(Contains(status.message(), "203.0.113.7:9100: this machine has no such address"));
  CHECK(Contains(status.message(), "metrics.listen"));
}

TEST_CASE("a job's page, its files and its history are served, with a policy that lets in no other script",
          "[monitoring]") {
  const auto exporter = StartOrFail({.status_json = [] { return std::string(R"({"job": "j", "step": 7})"); },
                                     .history_json = [] { return std::string(R"({"points": []})"); }});
  const std::string& address = exporter->address();
  const std::string page = Get(address, "/");
  CHECK(Contains(page, "<script src=\"/page.js\"></script>"));
  CHECK(Contains(page, "<th>step</th><td>7</td>"));
  CHECK(Contains(page,
                 "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                 "'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"));
  CHECK(Get(address, "/api/v1/history").ends_with("\r\n\r\n{\"points\": []}\n"));
  CHECK(Contains(Get(address, "/api/v1/history"), "Content-Type: application/json\r\n"));
  CHECK(Contains(Get(address, "/page.js"), "Content-Type: text/javascript; charset=utf-8\r\n"));
  CHECK(Contains(Get(address, "/page.css"), "Content-Type: text/css; charset=utf-8\r\n"));
  CHECK(Contains(Get(address, "/icon.svg"), "Content-Type: image/svg+xml\r\n"));
  CHECK(Get(address, "/page.html").starts_with("HTTP/1.1 404 "));
  const auto other = StartOrFail();  // of a server or a worker
  CHECK(Get(other->address(), "/api/v1/history").starts_with("HTTP/1.1 404 "));
  CHECK(Get(other->address(), "/page.js").starts_with("HTTP/1.1 404 "));
  CHECK(Get(other->address(), "/page.css").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("the status is served as JSON and as a page without scripts", "[monitoring]") {
  const auto exporter = StartOrFail({.status_json = [] { return std::string(R"({"job": "<script>", "step": 7})"); }});
  const std::string json = Get(exporter->address(), "/api/v1/status");
  CHECK(Contains(json, "Content-Type: application/json"));
  CHECK(json.ends_with("\r\n\r\n{\"job\": \"<script>\", \"step\": 7}\n"));
  const std::string page = Get(exporter->address(), "/");
  CHECK(Contains(page, "Content-Type: text/html; charset=utf-8"));
  CHECK(Contains(page, "Content-Security-Policy: default-src 'none'"));
  CHECK(Contains(page, "<th>step</th><td>7</td>"));
  CHECK_FALSE(Contains(page, "<script"));
}

TEST_CASE("where other processes are is served as JSON by one that knows, and by no other", "[monitoring]") {
  const auto exporter = StartOrFail({.http_sd_json = [] { return std::string(R"([{"targets": ["10.0.0.6:9"]}])"); }});
  const std::string json = Get(exporter->address(), "/http_sd");
  CHECK(json.starts_with("HTTP/1.1 200 "));
  CHECK(Contains(json, "Content-Type: application/json\r\n"));
  CHECK(json.ends_with("\r\n\r\n[{\"targets\": [\"10.0.0.6:9\"]}]\n"));
  const auto other = StartOrFail();
  CHECK(Get(other->address(), "/http_sd").starts_with("HTTP/1.1 404 "));
}

TEST_CASE("a failing status is answered, and HEAD has no body", "[monitoring]") {
  const auto exporter = StartOrFail({.status_json = []() -> std::string { throw std::runtime_error("no status"); }});
  const std::string address = exporter->address();
  CHECK(Get(address, "/").starts_with("HTTP/1.1 500 "));
  const std::string head = Send(address, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.1 200 "));
  CHECK(head.ends_with("\r\n\r\n"));
}

TEST_CASE("a malformed request gets an answer in which no word of it stands", "[monitoring]") {
  const auto exporter = StartOrFail();
  for (const char* request : {"GET / planted\r\n\r\n", "GET / HTTP/planted\nplanted: 1\r\n\r\n", "planted\r\n\r\n",
                              "GET planted HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    const std::string answer = Send(exporter->address(), request);
    CAPTURE(request, answer);
    CHECK(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    CHECK(Contains(answer, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    CHECK(Contains(answer, "\r\n\r\nthis is no request of HTTP/1.1"));
    CHECK_FALSE(Contains(answer, "planted"));
  }
}

TEST_CASE("scrapes from several threads beside a writing actor are whole", "[monitoring]") {
  auto registry = std::make_shared<Registry>();
  const auto shard = registry->Create<ShardMetrics>();
  auto exporter = Exporter::Start({}, registry);
  REQUIRE(exporter.ok());
  std::atomic<bool> over{false};
  std::thread actor([&] {
    while (!over) shard->apply_seconds.Observe(1e-3);
  });
  std::vector<std::future<Seen>> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.push_back(std::async(std::launch::async, ScrapeWhileWritten, exporter.value()->address()));
  }
  std::vector<Seen> all;
  for (std::future<Seen>& scraper : scrapers) all.push_back(scraper.get());
  over = true;
  actor.join();
  for (const Seen& seen : all) {
    CHECK(seen.wrong.empty());
    CHECK(seen.last > seen.first);
  }
}

TEST_CASE("connections that say nothing do not hold up a scrape", "[monitoring]") {
  const auto exporter = StartOrFail();
  std::list<HttpClient> idle;
  for (int i = 0; i < 50; ++i) {
    idle.emplace_back(exporter->address());
    REQUIRE(idle.back().connected());
  }
  CHECK(Contains(Get(exporter->address(), "/metrics"), "\nprocess_open_fds "));
}

TEST_CASE("when the exporter is gone its port is free again", "[monitoring]") {
  auto exporter = StartOrFail();
  const std::string address = exporter->address();
  (void)Get(address, "/healthz");
  exporter.reset();
  CHECK(Get(address, "/healthz").empty());
  const auto again = StartOrFail({.listen = address});
  CHECK(again->address() == address);
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
}

}  // namespace capstan::monitoring
