#include "monitoring/exporter.h"

#include <civetweb.h>
#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "monitoring/status_page.h"

namespace capstan::monitoring {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter: return prometheus::MetricType::Counter;
    case MetricKind::kGauge: return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric ToPrometheus(MetricKind kind, const Sample& sample) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
  if (kind == MetricKind::kCounter) metric.counter.value = sample.value;
  if (kind == MetricKind::kGauge) metric.gauge.value = sample.value;
  if (kind != MetricKind::kHistogram) return metric;
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < sample.counts.size(); ++i) {
    cumulative += sample.counts[i];
    if (i < sample.bounds.size()) metric.histogram.bucket.push_back({cumulative, sample.bounds[i]});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = sample.value;
  return metric;
}

class RegistryCollectable : public prometheus::Collectable {
 public:
  explicit RegistryCollectable(const Registry& registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const Family& family : registry_.Read()) {
      auto& out = families.emplace_back();
      out.name = family.name;
      out.help = family.help;
      out.type = TypeOf(family.kind);
      for (const Sample& sample : family.samples) out.metric.push_back(ToPrometheus(family.kind, sample));
    }
    return families;
  }

 private:
  const Registry& registry_;
};

struct HostPort {
  std::string host;  // as given, with brackets around IPv6
  int port = 0;
};

Result<HostPort> ParseListen(std::string_view listen) {
  const auto wrong = [&](std::string_view why) {
    return Invalid("metrics.listen = \"" + std::string(listen) + "\": " + std::string(why) +
                   "; write host:port with a numeric host, for example 127.0.0.1:9100, or port 0 for a free one");
  };
  const auto colon = listen.rfind(':');
  if (colon == std::string_view::npos) return wrong("there is no port");
  const std::string_view host = listen.substr(0, colon), digits = listen.substr(colon + 1);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535)
    return wrong("the port is not a number from 0 to 65535");
  if (host.empty() || host.find_first_not_of("0123456789abcdefABCDEF.:[]") != std::string_view::npos)
    return wrong("the host is not a numeric address");
  return HostPort{std::string(host), port};
}

// Makes a socket for a numeric HOST:PORT; returns -1 after a failure. The caller frees `*where`, unless it is null,
// with freeaddrinfo.
int SocketFor(const std::string& address, addrinfo** where) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, where) != 0) return *where = nullptr, -1;
  return socket((*where)->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

// Tries to listen at an address. Returns the errno of a failure; 0 if there was none, or if no socket could be made.
int ErrorOfListening(const std::string& address) {
  addrinfo* where = nullptr;
  const int fd = SocketFor(address, &where);
  const int one = 1;
  const bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                     bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = bound || fd < 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (where != nullptr) freeaddrinfo(where);
  return error;
}

// Connects to an address and disconnects, which wakes a thread that polls for connections there. Ignores failures.
void Knock(const std::string& address) {
  addrinfo* where = nullptr;
  const int fd = SocketFor(address, &where);
  if (fd >= 0) {
    (void)connect(fd, where->ai_addr, where->ai_addrlen);
    close(fd);
  }
  if (where != nullptr) freeaddrinfo(where);
}

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

const char* Reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 414: return "URI Too Long";
    case 417: return "Expectation Failed";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Internal Server Error";
  }
}

}  // namespace

std::string PrometheusText(const Registry& registry) {
  return prometheus::TextSerializer().Serialize(RegistryCollectable(registry).Collect());
}

struct Exporter::Impl {
  ExporterOptions options;
  std::shared_ptr<const Registry> registry;
  std::thread::id starter;  // the thread that called mg_start
  std::string start_log;    // civetweb's messages during mg_start
  mg_context* context = nullptr;
  std::string address;

  Response Answer(std::string_view uri) const {
    if (uri == "/metrics")
      return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = PrometheusText(*registry)};
    if (uri == "/healthz") return {.body = "ok\n"};
    if (uri == "/api/v1/status") return {.type = "application/json", .body = options.status_json() + "\n"};
    if (uri == "/http_sd" && options.http_sd_json)
      return {.type = "application/json", .body = options.http_sd_json() + "\n"};
    if (uri == "/") return {.type = "text/html; charset=utf-8", .body = RenderStatusPage(options.status_json())};
    return {.status = 404, .body = "there is /, /metrics, /api/v1/status and /healthz\n"};
  }

  Response AnswerSafely(const mg_request_info& request) const {
    const std::string_view method = request.request_method ? request.request_method : "";
    if (method != "GET" && method != "HEAD") return {.status = 405, .body = "only GET and HEAD\n"};
    try {  // civetweb is C: nothing may unwind through it
      return Answer(request.local_uri ? request.local_uri : "");
    } catch (const std::exception& error) {
      return {.status = 500, .body = std::string("failed: ") + error.what() + "\n"};
    }
  }

  // civetweb's callback begin_request: answers every well-formed request.
  static int HandleRequest(mg_connection* connection) {
    const auto* self = static_cast<const Impl*>(mg_get_user_data(mg_get_context(connection)));
    const mg_request_info& request = *mg_get_request_info(connection);
    const Response response = self->AnswerSafely(request);
    const bool head_only = std::string_view(request.request_method ? request.request_method : "") == "HEAD";
    Send(response, head_only, connection);
    return response.status;
  }

  // civetweb's callback http_error, for a request that is malformed or takes too long. The return value 0 prevents
  // civetweb's own answer, whose head would repeat parts of the request, line ends included.
  static int HandleError(mg_connection* connection, int status, const char* /*message*/) {
    Send({.status = status, .body = std::string("failed: ") + Reason(status) + "\n"}, false, connection);
    return 0;
  }

  static void Send(const Response& response, bool head_only, mg_connection* connection) {
    std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + Reason(response.status) +
                       "\r\nContent-Type: " + response.type +
                       "\r\nContent-Length: " + std::to_string(response.body.size()) +
                       "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
                       "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n";
    if (!head_only) text += response.body;
    mg_write(connection, text.data(), text.size());
  }

  // civetweb's callback log_message. The return value 1 keeps civetweb from printing the message. Only messages during
  // mg_start are kept.
  static int HandleLog(const mg_connection* connection, const char* message) {
    mg_context* context = connection ? mg_get_context(connection) : nullptr;
    auto* self = context ? static_cast<Impl*>(mg_get_user_data(context)) : nullptr;
    if (self && self->starter == std::this_thread::get_id())
      self->start_log.append(self->start_log.empty() ? "" : ", ").append(message);
    return 1;
  }

  Status Listen(const HostPort& where) {
    // civetweb is initialised once per process, before any context, and never shut down: it counts its users without a
    // lock.
    static const unsigned initialised = mg_init_library(MG_FEATURES_DEFAULT);
    (void)initialised;
    starter = std::this_thread::get_id();
    const std::string ports = where.host + ":" + std::to_string(where.port);
    const std::string threads = std::to_string(kExporterThreads);
    const char* settings[] = {"listening_ports",
                              ports.c_str(),
                              "num_threads",
                              threads.c_str(),
                              "request_timeout_ms",
                              "2000",
                              "enable_keep_alive",
                              "no",
                              "max_request_size",
                              "16384",
                              nullptr};
    mg_callbacks callbacks{};
    callbacks.begin_request = &HandleRequest;
    callbacks.http_error = &HandleError;
    callbacks.log_message = &HandleLog;
    context = mg_start(&callbacks, this, settings);
    if (context) return {};
    const int error = ErrorOfListening(ports);
    const std::string why = error == EADDRINUSE      ? "the address is in use by another process; stop that"
                            : error == EADDRNOTAVAIL ? "this machine has no such address; take one of its own"
                            : error == EACCES        ? "only root may take a port that low; take a higher one"
                            : error != 0             ? std::string(std::strerror(error)) + "; mend that"
                                                     : start_log + "; mend that";
    return Invalid("cannot serve metrics on " + ports + ": " + why +
                   ", or set metrics.listen to another address (port 0 takes a free one)");
  }
};

Exporter::Exporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Exporter::~Exporter() {
  if (!impl_->context) return;
  // Connects again and again until mg_stop returns: civetweb's accepting thread checks its stop flag only every 2 s,
  // and at each connection.
  const auto stopped = std::async(std::launch::async, [this] { mg_stop(impl_->context); });
  do Knock(impl_->address);
  while (stopped.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready);
}

Result<std::unique_ptr<Exporter>> Exporter::Start(ExporterOptions options, std::shared_ptr<const Registry> registry) {
  CAPSTAN_CHECK(registry != nullptr);
  CAPSTAN_ASSIGN_OR_RETURN(const HostPort where, ParseListen(options.listen));
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->registry = std::move(registry);
  CAPSTAN_RETURN_IF_ERROR(impl->Listen(where));
  mg_server_port port{};
  CAPSTAN_CHECK(mg_get_server_ports(impl->context, 1, &port) == 1);
  impl->address = (where.host == "0.0.0.0" ? "127.0.0.1" : where.host) + ":" + std::to_string(port.port);
  return std::unique_ptr<Exporter>(new Exporter(std::move(impl)));
}

std::string Exporter::address() const { return impl_->address; }

}  // namespace capstan::monitoring
