#include "cli/run/served_metrics.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/http_get.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

const std::string kToken = "0123456789abcdef";

std::string TokenIn(const TempFolder& folder) {
  std::string path = folder.Write("token", kToken + "\n");
  chmod(path.c_str(), 0600);
  return path;
}

Result<ServedMetrics> Serve(const MetricsSection& section, const Result<std::string>& own, const std::string& reached) {
  return ServeMetrics(section, own, reached, {}, std::make_shared<monitoring::Registry>());
}

TEST_CASE("host auto is an address that others reach only where readers need a token", "[cli][metrics]") {
  const TempFolder folder;
  const std::string elsewhere = "0.0.0.0";  // stands for an address of this machine that others reach
  const auto open = Serve({}, elsewhere, "10.0.0.5");
  REQUIRE(open.ok());
  CHECK(open->only_here);
  CHECK(open->address.starts_with("127.0.0.1:"));
  CHECK(open->Words().ends_with("/ (for this machine only: neither token_file nor certificate is given)"));

  const auto guarded = Serve({.token_file = TokenIn(folder)}, elsewhere, "10.0.0.5");
  REQUIRE(guarded.ok());
  CHECK_FALSE(guarded->only_here);
  CHECK(guarded->address.starts_with("10.0.0.5:"));
  CHECK(guarded->Words() == "metrics at http://" + guarded->address + "/");

  const auto local = Serve({}, std::string("127.0.0.1"), "127.0.0.1");
  REQUIRE(local.ok());
  CHECK_FALSE(local->only_here);
}

TEST_CASE("an address that the job file names is not replaced by another one", "[cli][metrics]") {
  const Status status = Serve({.listen = "0.0.0.0:0"}, std::string("127.0.0.1"), "127.0.0.1").status();
  CHECK(status.code() == Code::kInvalid);
  CHECK(Serve({.listen = "127.0.0.1:0"}, Unreachable("no route"), "").ok());
  CHECK(Serve({}, Unreachable("no route"), "").status().code() == Code::kUnreachable);
}

TEST_CASE("a page is fetched with the token, and no error has it", "[cli][metrics]") {
  const TempFolder folder;
  const MetricsSection section{.token_file = TokenIn(folder)};
  const auto served = Serve(section, std::string("127.0.0.1"), "127.0.0.1");
  REQUIRE(served.ok());
  CHECK(HttpGet(served->address, "/api/v1/status", section).value() == "{}\n");
  const Status refused = HttpGet(served->address, "/api/v1/status", {}).status();
  CHECK(refused.code() == Code::kUnreachable);
  CHECK(refused.message().find("401") != std::string::npos);
  const Status missing = HttpGet(served->address, "/other", section).status();
  CHECK(missing.message().find("404") != std::string::npos);
  chmod(section.token_file.c_str(), 0644);
  const Status open_to_all = HttpGet(served->address, "/api/v1/status", section).status();
  CHECK(open_to_all.code() == Code::kInvalid);
  for (const Status& status : {refused, missing, open_to_all})
    CHECK(status.message().find(kToken) == std::string::npos);
}

TEST_CASE("a page that does not come is given up where the caller says so", "[cli][metrics]") {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::string silent = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  int looks = 0;
  const auto answer = HttpGet(silent, "/", {}, [&] { return ++looks < 3; });
  CHECK(answer.status().code() == Code::kUnreachable);
  CHECK(looks == 3);
  close(listener);
}

}  // namespace
}  // namespace capstan::cli
