#include "monitoring/exporter.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/host_port.h"
#include "monitoring/host_check.h"
#include "monitoring/http_server.h"
#include "monitoring/page_files.h"
#include "monitoring/prometheus_text.h"
#include "monitoring/status_page.h"
#include "monitoring/token_file.h"

namespace capstan::monitoring {
namespace {

struct HostPort {
  std::string host;  // IPv6 without brackets
  std::uint16_t port = 0;
};

Result<HostPort> ParseListen(const std::string& listen) {
  const auto wrong = [&](std::string_view why) {
    return Invalid("metrics.listen = \"" + listen + "\": " + std::string(why) +
                   "; write host:port with a numeric host, for example 127.0.0.1:9100, or port 0 for a free one");
  };
  const auto colon = listen.rfind(':');
  if (colon == std::string::npos) return wrong("there is no port");
  const std::string_view digits = std::string_view(listen).substr(colon + 1);
  HostPort where;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), where.port);
  if (error != std::errc() || end != digits.data() + digits.size())
    return wrong("the port is not a number from 0 to 65535");
  where.host = listen.substr(0, colon);
  if (where.host.starts_with('[') && where.host.ends_with(']')) where.host = where.host.substr(1, colon - 2);
  if (where.host.empty() || where.host.find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos)
    return wrong("the host is not a numeric address");
  return where;
}

// Returns kInvalid for an address that other machines reach, if nothing keeps them from reading what is served there.
Status CheckProtection(const ExporterOptions& options, const HostPort& where) {
  if (IsLoopback(where.host) || !options.token_file.empty() || !options.certificate.empty()) return {};
  return Invalid(
      "metrics.listen = \"" + options.listen +
      "\": every machine that reaches this address could read what is served there; write under [metrics] "
      "token_file = \"FILE\", with a secret that readers send (to make one: umask 077; openssl rand -hex 32 "
      "> FILE), or for https certificate and key, or listen = \"127.0.0.1:" +
      std::to_string(where.port) +
      "\"; to a worker give --metrics-token-file FILE, or --metrics-certificate FILE and --metrics-key FILE");
}

}  // namespace

struct Exporter::Impl {
  ExporterOptions options;
  std::shared_ptr<const Registry> registry;
  std::optional<TokenFile> token;  // nothing: no token is asked for
  std::string token_trouble;       // that was warned of; empty: none
  std::string address;
  std::unique_ptr<HttpServer> server;  // ends first, because its threads use the rest

  // Called on the server's thread of connections.
  std::optional<HttpResponse> AnswerAtOnce(const HttpRequest& request) const {
    if (request.path == "/healthz") return HttpResponse{.body = "ok\n"};
    if (request.host && !IsOwnHost(*request.host, request.arrived_at, options.hosts)) {
      return HttpResponse{.status = 421,
                          .body =
                              "this process does not have the name in the field Host: ask for it by its address, or "
                              "list the name in hosts under [metrics]\n"};
    }
    return std::nullopt;
  }

  // Called on the server's thread of pages, as are the following.
  HttpResponse AnswerPage(const HttpRequest& request) {
    if (token && !IsLetIn(request)) {
      return {.status = 401,
              .body = "send the token of this job's metrics: Authorization: Bearer TOKEN\n",
              .asks_for_token = true};
    }
    const std::string& path = request.path;
    if (path == "/metrics")
      return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = PrometheusText(*registry)};
    if (path == "/api/v1/status") return {.type = "application/json", .body = options.status_json() + "\n"};
    if (path == "/api/v1/history" && options.history_json)
      return {.type = "application/json", .body = options.history_json() + "\n"};
    if (path == "/http_sd" && options.http_sd_json)
      return {.type = "application/json", .body = options.http_sd_json() + "\n"};
    if (path == "/") {
      const PageKind kind = options.history_json ? PageKind::kLive : PageKind::kTables;
      return {.type = "text/html; charset=utf-8", .body = RenderStatusPage(options.status_json(), kind)};
    }
    if (path == "/page.css") return {.type = "text/css; charset=utf-8", .body = std::string(PageStyle())};
    if (path == "/page.js" && options.history_json)
      return {.type = "text/javascript; charset=utf-8", .body = std::string(PageScript())};
    if (path == "/icon.svg") return {.type = "image/svg+xml", .body = std::string(PageIcon())};
    return {.status = 404, .body = "there is /, /metrics, /api/v1/status and /healthz\n"};
  }

  bool IsLetIn(const HttpRequest& request) {
    const std::string why = token->Read().message();
    if (why != token_trouble && !why.empty()) options.warn(why);
    token_trouble = why;
    return token->IsIn(request.authorization);
  }

  Status Listen(const HostPort& where) {
    Result<std::unique_ptr<HttpServer>> started =
        HttpServer::Start({.host = where.host,
                           .port = where.port,
                           .certificate = options.certificate,
                           .key = options.key,
                           .at_once = [this](const HttpRequest& request) { return AnswerAtOnce(request); },
                           .page = [this](const HttpRequest& request) { return AnswerPage(request); },
                           .warn = options.warn});
    if (!started.ok()) {
      return Invalid("cannot serve metrics on " + options.listen + ": " + started.status().message() +
                     ", or set metrics.listen to another address (port 0 takes a free one)");
    }
    server = std::move(started).value();
    address = WithHost(where.host == "0.0.0.0" ? "127.0.0.1" : where.host, ":" + std::to_string(server->port()));
    return {};
  }
};

Exporter::Exporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Exporter::~Exporter() = default;

Result<std::unique_ptr<Exporter>> Exporter::Start(ExporterOptions options, std::shared_ptr<const Registry> registry) {
  CAPSTAN_CHECK(registry != nullptr);
  CAPSTAN_ASSIGN_OR_RETURN(const HostPort where, ParseListen(options.listen));
  CAPSTAN_RETURN_IF_ERROR(CheckProtection(options, where));
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->registry = std::move(registry);
  if (!impl->options.token_file.empty()) {
    impl->token.emplace(impl->options.token_file);
    CAPSTAN_RETURN_IF_ERROR(impl->token->Read());
  }
  CAPSTAN_RETURN_IF_ERROR(impl->Listen(where));
  return std::unique_ptr<Exporter>(new Exporter(std::move(impl)));
}

std::string Exporter::address() const { return impl_->address; }

}  // namespace capstan::monitoring
