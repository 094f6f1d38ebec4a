#include "common/base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

namespace capstan {
namespace {

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), port);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool IsOfName(char c) { return IsLetterOrDigit(c) || c == '.' || c == '-' || c == '_'; }
bool IsOfV6(char c) { return IsLetterOrDigit(c) || c == ':' || c == '.' || c == '%'; }

bool IsHost(std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  if (!host.starts_with('[')) return std::all_of(host.begin(), host.end(), IsOfName);
  if (!host.ends_with(']') || host.size() < 4) return false;
  const std::string_view inside = host.substr(1, host.size() - 2);
  return inside.find(':') != inside.npos && std::all_of(inside.begin(), inside.end(), IsOfV6);
}

}  // namespace

bool IsHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return colon != text.npos && IsHost(text.substr(0, colon)) && IsPort(text.substr(colon + 1));
}

bool IsPagesAddress(std::string_view text) { return IsHostPort(WithoutHttps(text)); }

std::string_view WithoutHttps(std::string_view text) {
  constexpr std::string_view kHttps = "https://";
  return text.starts_with(kHttps) ? text.substr(kHttps.size()) : text;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

std::string WithHost(const std::string& host, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == address.npos ? "" : address.substr(colon);
  const bool bare_v6 = host.find(':') != host.npos && !host.starts_with('[');
  return (bare_v6 ? "[" + host + "]" : host) + port;
}

bool IsLoopback(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
  return host == "localhost" || host == "::1" || host == "[::1]";
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "*" || host == "::" || host == "[::]"; }

}  // namespace capstan
