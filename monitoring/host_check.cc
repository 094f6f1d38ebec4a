#include "monitoring/host_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "common/base/host_port.h"

namespace capstan::monitoring {
namespace {

// Returns the 4 or 16 bytes of the address that a text is; empty if it is none. Several texts can be one IPv6 address.
std::string BytesOf(const std::string& text) {
  std::string bytes(sizeof(in6_addr), '\0');
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(sizeof(in_addr));
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ? bytes : "";
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool IsSameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

// Returns NAME of NAME or NAME:PORT, an IPv6 address without its brackets; "" for any other text.
std::string NameOf(std::string_view host) {
  const std::size_t end = host.starts_with('[') ? host.find(']') : std::min(host.find(':'), host.size());
  if (end == host.npos) return "";
  const std::string_view port = host.substr(host.starts_with('[') ? end + 1 : end);
  const bool is_port = port.empty() || (port[0] == ':' && port.find_first_not_of("0123456789", 1) == port.npos);
  if (!is_port) return "";
  return std::string(host.starts_with('[') ? host.substr(1, end - 1) : host.substr(0, end));
}

}  // namespace

bool IsOwnHost(std::string_view host, const std::string& arrived_at, const std::vector<std::string>& names) {
  const std::string name = NameOf(host);
  if (name.empty()) return false;
  const bool is_listed =
      std::any_of(names.begin(), names.end(), [&](const auto& own) { return IsSameName(NameOf(own), name); });
  if (is_listed) return true;
  if (IsLoopback(arrived_at) && (IsLoopback(name) || IsSameName(name, "localhost"))) return true;
  const std::string address = BytesOf(name);
  return !address.empty() && address == BytesOf(arrived_at);
}

}  // namespace capstan::monitoring
