// The target sends the input as an HTTP request to the metrics exporter. Either there is no answer, or its head has
// only the exporter's own words.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "monitoring/exporter.h"
#include "monitoring/metrics.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr std::array<std::string_view, 9> kFields = {"Content-Type: ",
                                                     "Content-Length: ",
                                                     "Connection: close",
                                                     "Cache-Control: no-store",
                                                     "X-Content-Type-Options: nosniff",
                                                     "Referrer-Policy: no-referrer",
                                                     "Content-Security-Policy: ",
                                                     "Allow: GET, HEAD",
                                                     "WWW-Authenticate: Bearer"};

const monitoring::Exporter& TheExporter() {
  static const std::unique_ptr<monitoring::Exporter> exporter = [] {
    auto registry = std::make_shared<monitoring::Registry>();
    (void)registry->Create<monitoring::WorkerMetrics>();
    return monitoring::Exporter::Start({}, registry).value();
  }();
  return *exporter;
}

std::uint16_t PortOfExporter() {
  static const std::string address = TheExporter().address();
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::string Ask(std::string_view request) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(PortOfExporter());
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(connect(connection, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0, "the exporter listens");
  (void)send(connection, request.data(), request.size(), MSG_NOSIGNAL);  // the server may hang up before the end
  shutdown(connection, SHUT_WR);
  std::string answer;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = recv(connection, buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(connection);
  return answer;
}

// Removes the first line from the head of an answer and returns it.
std::string_view TakeLine(std::string_view* head) {
  const std::size_t end = head->find("\r\n");
  Require(end != head->npos, "a line of the head ends");
  const std::string_view line = head->substr(0, end);
  head->remove_prefix(end + 2);
  return line;
}

void CheckStatusLine(std::string_view line) {
  Require(line.starts_with("HTTP/1.1 ") && line.size() > 13 && line[12] == ' ', "a status line: " + std::string(line));
  const std::string_view reason = line.substr(13);
  const bool is_word = reason.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ") == reason.npos;
  Require(is_word, "a reason is made of words: " + std::string(line));
}

void CheckAnswer(std::string_view answer, bool has_body) {
  CheckStatusLine(TakeLine(&answer));
  std::size_t length = std::string::npos;
  for (std::string_view line; !(line = TakeLine(&answer)).empty();) {
    const auto* field = std::ranges::find_if(kFields, [&](std::string_view name) { return line.starts_with(name); });
    Require(field != kFields.end(), "a field is the exporter's own: " + std::string(line));
    if (*field == kFields[1]) std::from_chars(line.data() + field->size(), line.data() + line.size(), length);
  }
  Require(!has_body || answer.size() == length, "the body is as long as the head says");
}

void RunHttp(std::string_view request) {
  const std::string answer = Ask(request);
  if (answer.empty()) return;
  CheckAnswer(answer, request.find("HEAD") == request.npos);
}

const Registered http_target({"http", RunHttp});

}  // namespace
}  // namespace capstan::fuzz
