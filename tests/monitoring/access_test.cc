// Who may read what an exporter serves: the token, its file, and the addresses on which none may do without.
#include <sys/stat.h>

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "monitoring/exporter.h"
#include "monitoring/token_file.h"
#include "tests/catch.h"
#include "tests/monitoring/http_client.h"
#include "tests/temp_folder.h"

namespace capstan::monitoring {
namespace {

using testing::TempFolder;

const std::string kToken = "0123456789abcdef-._~+/=", kOther = "fedcba9876543210-._~+/=";

std::string WriteSecret(const TempFolder& folder, const std::string& name, const std::string& bytes) {
  std::string path = folder.Write(name, bytes);
  chmod(path.c_str(), 0600);
  return path;
}

Result<std::unique_ptr<Exporter>> StartWith(ExporterOptions options) {
  return Exporter::Start(std::move(options), std::make_shared<Registry>());
}

bool IsLetIn(const std::string& address, const std::string& authorization) {
  const std::string answer = Get(address, "/metrics", "Authorization: " + authorization + "\r\n");
  CAPTURE(answer);
  CHECK(Contains(answer, "\r\nWWW-Authenticate: Bearer\r\n") == answer.starts_with("HTTP/1.1 401 "));
  CHECK_FALSE(Contains(answer, kToken));
  return answer.starts_with("HTTP/1.1 200 ");
}

}  // namespace

TEST_CASE("with a token every page but /healthz asks for it", "[monitoring]") {
  const TempFolder folder;
  const auto exporter = StartWith(
      {.token_file = WriteSecret(folder, "token", kToken + "\n"), .http_sd_json = [] { return std::string("[]"); }});
  REQUIRE(exporter.ok());
  const std::string address = exporter.value()->address();
  for (const char* path : {"/metrics", "/", "/api/v1/status", "/api/v1/history", "/page.js", "/http_sd", "/other"}) {
    CAPTURE(path);
    const std::string answer = Get(address, path);
    CHECK(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"));
    CHECK(Contains(answer, "Authorization: Bearer TOKEN"));
  }
  CHECK(Get(address, "/healthz").ends_with("ok\n"));
  CHECK(IsLetIn(address, "Bearer " + kToken));
  CHECK(IsLetIn(address, "bearer  " + kToken + " "));
  for (const std::string& wrong :
       {"Bearer " + kOther, "Bearer " + kToken + "x", "Bearer " + kToken.substr(1), "Basic " + kToken, kToken,
        "Bearer" + kToken, "Bearer " + kToken + ", Bearer " + kToken, std::string("Bearer"), std::string("Bearer "),
        std::string()}) {
    CAPTURE(wrong);
    CHECK_FALSE(IsLetIn(address, wrong));
  }
  const std::string twice = "Authorization: Bearer " + kOther + "\r\nAuthorization: Bearer " + kToken + "\r\n";
  CHECK(Get(address, "/metrics", twice).starts_with("HTTP/1.1 400 "));
}

TEST_CASE("a token is in force as soon as its file has it, and a file that cannot be used lets nobody in",
          "[monitoring]") {
  const TempFolder folder;
  const std::string file = WriteSecret(folder, "token", kToken);
  std::vector<std::string> warnings;
  auto exporter = StartWith({.token_file = file, .warn = [&](const std::string& text) { warnings.push_back(text); }});
  REQUIRE(exporter.ok());
  const std::string address = exporter.value()->address();
  CHECK(IsLetIn(address, "Bearer " + kToken));
  WriteSecret(folder, "token", kOther);
  CHECK(IsLetIn(address, "Bearer " + kOther));
  CHECK_FALSE(IsLetIn(address, "Bearer " + kToken));
  std::filesystem::rename(WriteSecret(folder, "new", kToken), file);
  CHECK(IsLetIn(address, "Bearer " + kToken));
  chmod(file.c_str(), 0640);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(IsLetIn(address, "Bearer " + kToken));
  std::filesystem::remove(file);
  CHECK_FALSE(IsLetIn(address, "Bearer " + kToken));
  WriteSecret(folder, "token", kToken);
  CHECK(IsLetIn(address, "Bearer " + kToken));
  exporter.value().reset();
  REQUIRE(warnings.size() == 2);  // one for each reason
  CHECK(Contains(warnings[0], "chmod 600 " + file));
  CHECK(Contains(warnings[1], "cannot read " + file));
}

TEST_CASE("a file that has no token, or that others can read, is refused with what to do", "[monitoring]") {
  const TempFolder folder;
  struct Bad {
    const char* what;
    std::string bytes;
    mode_t mode;
  };
  for (const Bad& bad : {Bad{"short", "0123456789abcde", 0600}, Bad{"long", std::string(kTokenCharsMax + 1, 'a'), 0600},
                         Bad{"two lines", kToken + "\n" + kToken, 0600}, Bad{"a space", "0123456789 abcdef", 0600},
                         Bad{"control", "0123456789abcdef\x01", 0600}, Bad{"zero", std::string(40, '\0'), 0600},
                         Bad{"empty", "", 0600}, Bad{"white", " \n\n", 0600}, Bad{"group", kToken, 0640},
                         Bad{"all", kToken, 0604}, Bad{"writable", kToken, 0620}}) {
    const std::string path = WriteSecret(folder, bad.what, bad.bytes);
    chmod(path.c_str(), bad.mode);
    const Status status = StartWith({.token_file = path}).status();
    CAPTURE(bad.what, status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK(Contains(status.message(), path));
    CHECK(Contains(status.message(), "openssl rand -hex 32 > "));
    CHECK((bad.bytes.size() < 8 || !Contains(status.message(), bad.bytes.substr(0, 8))));
  }
  CHECK(Contains(StartWith({.token_file = folder.path("none")}).status().message(), "No such file"));
  CHECK(Contains(StartWith({.token_file = folder.path()}).status().message(), "is not a file"));
}

TEST_CASE("an address that others reach is served with a token or TLS only, and the refusal has the line",
          "[monitoring]") {
  const TempFolder folder;
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "203.0.113.7:9100", "[2001:db8::1]:9100"}) {
    const Status status = StartWith({.listen = listen}).status();
    CAPTURE(listen, status.message());
    CHECK(status.code() == Code::kInvalid);
    for (const char* words : {"metrics.listen", listen, "token_file = \"FILE\"", "certificate and key"})
      CHECK(Contains(status.message(), words));
  }
  const auto with_token = StartWith({.listen = "0.0.0.0:0", .token_file = WriteSecret(folder, "token", kToken)});
  REQUIRE(with_token.ok());
  CHECK(IsLetIn(with_token.value()->address(), "Bearer " + kToken));
  CHECK(Get(with_token.value()->address(), "/metrics").starts_with("HTTP/1.1 401 "));
  for (const char* listen : {"127.0.0.1:0", "127.8.8.8:0"}) CHECK(StartWith({.listen = listen}).ok());
}

TEST_CASE("a certificate that cannot be used is refused with its file", "[monitoring]") {
  const TempFolder folder;
  const std::string none = folder.path("none"), text = WriteSecret(folder, "text", "no PEM");
  const std::string open = folder.Write("open", "no PEM");
  chmod(open.c_str(), 0644);
  for (const auto& [certificate, key, words] : {std::tuple(none, text, "cannot read " + none),
                                                {text, none, "cannot read " + none},
                                                {text, text, std::string("no certificate in PEM")},
                                                {text, open, "chmod 600 " + open}}) {
    const Status status = StartWith({.certificate = certificate, .key = key}).status();
    CAPTURE(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK(Contains(status.message(), words));
  }
}

}  // namespace capstan::monitoring
