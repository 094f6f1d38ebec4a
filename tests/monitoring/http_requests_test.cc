// What the exporter answers to requests of every odd kind: a status, in words of its own, and never a file.
#include <string>
#include <vector>

#include "monitoring/exporter.h"
#include "tests/catch.h"
#include "tests/monitoring/http_client.h"
#include "tests/monitoring/planted_metrics.h"

namespace capstan::monitoring {
namespace {

std::unique_ptr<Exporter> StartPlanted(ExporterOptions options = {}) {
  auto registry = std::make_shared<Registry>();
  PlantMetrics(*registry);
  auto exporter = Exporter::Start(std::move(options), registry);
  INFO(exporter.status().ToString());
  REQUIRE(exporter.ok());
  return std::move(exporter).value();
}

// Returns the status; 0: the connection was closed without an answer.
int StatusOf(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : answer.empty() ? 0 : -1;
}

struct Odd {
  std::string request;
  int status;  // 0: no answer
};

const std::string kHost = "Host: localhost\r\n";

std::string Request(const std::string& line, const std::string& rest = "\r\n") { return line + "\r\n" + kHost + rest; }

// The marker that no answer may repeat.
const std::string kPlanted = "planted-by-the-client";

std::vector<Odd> OddRequests() {
  const std::string get = "GET /metrics HTTP/1.1", text(70'000, 'a'),
                    smuggled = "GET /" + kPlanted + " HTTP/1.1\r\n\r\n";
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  std::vector<Odd> all = {
      // Bodies, of every method and form.
      {Request(get, "Content-Length: 5\r\n\r\n"), 413},
      {Request(get, "Content-Length: 5\r\n\r\nabcde"), 413},
      {Request(get, "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde"), 413},
      {Request(get, "Content-Length: 18446744073709551615\r\n\r\n"), 413},
      {Request(get, "Transfer-Encoding: chunked\r\n\r\n"), 413},
      {Request(get, "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"), 413},
      {Request(get, "Transfer-Encoding: gzip\r\n\r\n"), 413},
      {Request("HEAD /metrics HTTP/1.1", "Content-Length: 1\r\n\r\n"), 413},
      {Request("POST /metrics HTTP/1.1", "Content-Length: 1\r\n\r\n"), 413},
      {Request("PUT / HTTP/1.1", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 413},
      {Request("POST /healthz HTTP/1.1", "Content-Length: 1\r\n\r\n"), 413},
      {Request("POST / HTTP/1.1", "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"), 413},
      {Request(get, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
      {Request(get, "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"), 400},
      {Request(get, "Content-Length: -1\r\n\r\n"), 400},
      {Request(get, "Content-Length: 18446744073709551616\r\n\r\n"), 400},
      {Request(get, "Content-Length: 0x5\r\n\r\n"), 400},
      {Request(get, "Content-Length: 0\r\n\r\n"), 200},
      // What follows a request is not read.
      {Request(get, "\r\n" + smuggled), 200},
      // Methods.
      {Request("POST /metrics HTTP/1.1", "Content-Length: 0\r\n\r\n"), 405},
      {Request("DELETE / HTTP/1.1"), 405},
      {Request("OPTIONS * HTTP/1.1"), 405},
      {Request("TRACE / HTTP/1.1"), 405},
      {Request("CONNECT localhost:1 HTTP/1.1"), 405},
      {Request("get /metrics HTTP/1.1"), 405},
      {Request(kPlanted + " / HTTP/1.1"), 405},
      {Request("PRI * HTTP/2.0"), 400},
      // Lines and versions.
      {"\r\n\r\n", 400},
      {kPlanted + "\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET /metrics\r\n\r\n", 400},
      {"GET  /metrics HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /metrics HTTP/9.9\r\n" + kHost + "\r\n", 400},
      {"GET /metrics http/1.1\r\n" + kHost + "\r\n", 400},
      {"GET /metrics HTTP/1.1\r\nHost localhost\r\n\r\n", 400},
      {"GET /metrics HTTP/1.1\r\nHost : localhost\r\n\r\n", 400},
      {"GET /metrics HTTP/1.1\r\n: localhost\r\n\r\n", 400},
      {"GET /metrics HTTP/1.1\r\n" + kHost + "X: a\x01z\r\n\r\n", 400},
      {"GET /met\x01rics HTTP/1.1\r\n" + kHost + "\r\n", 400},
      {std::string("GET /met\0rics HTTP/1.1\r\n", 24) + kHost + "\r\n", 400},
      {"\x16\x03\x01\x02\x01\x01\r\n\r\n", 400},
      {"\x16\x03\x01\x02", 400},
      {"GET /metrics HTTP/1.1\r\n" + kHost, 0},
      {"", 0},
      // Sizes.
      {Request("GET /" + text + " HTTP/1.1"), 431},
      {Request(get, "X: " + text + "\r\n\r\n"), 431},
      {Request(get, text + ": 1\r\n\r\n"), 431},
      {Request(get, many + "\r\n"), 431},
      {text, 431},
      // Names of this process: the field Host.
      {"GET /metrics HTTP/1.1\r\n\r\n", 400},
      {"GET /metrics HTTP/1.1\r\n" + kHost + kHost + "\r\n", 400},
      {"GET /metrics HTTP/1.0\r\n\r\n", 200},
  };
  // Paths that are pages elsewhere, or files. None is decoded or made shorter.
  for (const std::string path : {"/etc/passwd",
                                 "//etc/passwd",
                                 "/../etc/passwd",
                                 "/../../../../../../etc/passwd",
                                 "/./../etc/passwd",
                                 "/..%2f..%2fetc/passwd",
                                 "/%2e%2e/%2e%2e/etc/passwd",
                                 "/%2e%2e%2fetc%2fpasswd",
                                 "/%252e%252e%252fetc%252fpasswd",
                                 "/..%c0%af..%c0%afetc/passwd",
                                 "/..;/etc/passwd",
                                 "/..\\..\\etc\\passwd",
                                 "/..%5c..%5cetc%5cpasswd",
                                 "/metrics/../../etc/passwd",
                                 "/metrics/..",
                                 "/metrics%00.txt",
                                 "/metrics\\..",
                                 "/%6detrics",
                                 "/metrics/",
                                 "/METRICS",
                                 "/.",
                                 "/..",
                                 "/proc/self/environ",
                                 "/job.toml",
                                 "/metrics;x",
                                 "/api/v1/status/",
                                 "/api"}) {
    all.push_back({Request("GET " + path + " HTTP/1.1"), 404});
  }
  all.push_back({Request("GET ../etc/passwd HTTP/1.1"), 400});
  all.push_back({Request("GET http://localhost/metrics HTTP/1.1"), 400});
  all.push_back({Request("GET /metrics?name[]=up&" + kPlanted + " HTTP/1.1"), 200});
  return all;
}

}  // namespace

TEST_CASE("every odd request has its status, and no answer repeats a word of it", "[monitoring]") {
  const auto exporter = StartPlanted();
  for (const Odd& odd : OddRequests()) {
    const HttpClient client(exporter->address());
    (void)client.Send(odd.request);  // the other side may answer before the end
    client.EndRequests();
    const std::string answer = client.Rest();
    CAPTURE(odd.request.substr(0, 200), answer.substr(0, 400));
    CHECK(StatusOf(answer) == odd.status);
    CHECK_FALSE(Contains(answer, kPlanted));
    CHECK_FALSE(Contains(answer, "root:"));
    if (odd.status == 413) CHECK(answer.ends_with(odd.request.starts_with("HEAD") ? "\r\n\r\n" : "no body here\n"));
  }
  CHECK(Get(exporter->address(), "/healthz").ends_with("\r\n\r\nok\n"));
}

TEST_CASE("a name in the field Host that is not this process's gets no page, and words about it", "[monitoring]") {
  const auto exporter = StartPlanted({.hosts = {"node-7.example", "10.9.8.7"}});
  const std::string address = exporter->address(), port = address.substr(address.rfind(':'));
  for (const std::string& own : {std::string("localhost"), std::string("LOCALHOST") + port, std::string("127.0.0.1"),
                                 "127.0.0.1" + port, std::string("127.9.9.9:1"), std::string("[::1]:80"),
                                 std::string("node-7.example"), "Node-7.Example" + port, std::string("10.9.8.7")}) {
    CAPTURE(own);
    CHECK(StatusOf(Send(address, "GET /metrics HTTP/1.1\r\nHost: " + own + "\r\n\r\n")) == 200);
  }
  const std::vector<std::string> foreign = {kPlanted,
                                            "evil.example",
                                            "evil.example" + port,
                                            "localhost.evil.example",
                                            "127.0.0.1.evil.example",
                                            "10.0.0.1",
                                            "0.0.0.0",
                                            "[::]",
                                            "[::1",
                                            "::1",
                                            "localhost:x",
                                            "localhost:1:2",
                                            "a localhost",
                                            "localhost, evil.example",
                                            "2130706433",
                                            "0x7f.1",
                                            "evil.example@localhost",
                                            "http://localhost",
                                            ""};
  for (const std::string& host : foreign) {
    for (const char* path : {"/metrics", "/", "/api/v1/status", "/http_sd", "/other"}) {
      const std::string answer = Send(address, std::string("GET ") + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
      CAPTURE(host, path, answer);
      CHECK(StatusOf(answer) == 421);
      CHECK(Contains(answer, "hosts under [metrics]"));
      CHECK_FALSE(Contains(answer, kPlanted));
    }
    CHECK(Get(address, "/healthz").ends_with("ok\n"));
  }
  for (const std::string& control : {std::string("local\x01host"), std::string("localhost\x7f"), std::string("a\rb"),
                                     std::string("local\0host", 10)}) {
    const std::string answer = Send(address, "GET /metrics HTTP/1.1\r\nHost: " + control + "\r\n\r\n");
    CAPTURE(answer);
    CHECK(StatusOf(answer) == 400);
  }
  CHECK(Send(address, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").ends_with("ok\n"));
}

}  // namespace capstan::monitoring
