#include "common/base/process_address.h"

#include <algorithm>

#include "common/base/host_port.h"
#include "common/base/utf8.h"

namespace capstan {
namespace {

constexpr std::string_view kTcp = "tcp://", kLocal = "ipc://";
constexpr std::size_t kKeyTextBytes = 64, kKeysMax = 2;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string QuoteExcerpt(std::string_view text) { return "\"" + Excerpt(text) + "\""; }

// Returns why the text is no path of a socket; empty if it is one.
std::string FaultOfPath(std::string_view path) {
  const bool control = std::any_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  if (!path.starts_with('/')) return "it needs a path from the root, as ipc:///run/job/coordinator";
  if (path.ends_with('/')) return "it names a folder, and a socket has a name in it";
  if (control) return "its path has a control character";
  if (path.size() <= kSocketPathBytesMax) return "";
  return "its path has " + std::to_string(path.size()) + " bytes, and a socket's has at most " +
         std::to_string(kSocketPathBytesMax);
}

}  // namespace

bool IsLocalAddress(std::string_view address) { return address.starts_with(kLocal); }

std::string SocketPathOf(const std::string& local_address) { return local_address.substr(kLocal.size()); }

std::string LocalAddress(const std::string& folder, const std::string& name) {
  return std::string(kLocal) + folder + "/" + name;
}

std::string_view KeyInAddress(std::string_view address) {
  const std::size_t hash = IsLocalAddress(address) ? address.npos : address.rfind('#');
  return hash == address.npos ? std::string_view() : address.substr(hash + 1);
}

std::vector<std::string_view> KeysInAddress(std::string_view address) {
  std::vector<std::string_view> keys;
  for (std::string_view rest = KeyInAddress(address); !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    keys.push_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return keys;
}

std::string WithoutKey(const std::string& address) {
  const std::size_t hash = IsLocalAddress(address) ? address.npos : address.rfind('#');
  return address.substr(0, hash);
}

std::string WithKey(const std::string& address, const std::string& key) {
  return IsLocalAddress(address) ? address : address + "#" + key;
}

bool HasKeyOrNone(std::string_view address) {
  if (address.find('#') == address.npos) return true;
  const std::vector<std::string_view> keys = KeysInAddress(address);
  return !keys.empty() && keys.size() <= kKeysMax && !address.ends_with(',') &&
         std::all_of(keys.begin(), keys.end(), [](std::string_view key) {
           return key.size() == kKeyTextBytes && std::all_of(key.begin(), key.end(), IsHexDigit);
         });
}

bool IsProcessAddress(std::string_view text) {
  if (IsLocalAddress(text)) return FaultOfPath(text.substr(kLocal.size())).empty();
  return HasKeyOrNone(text) && IsHostPort(text.substr(0, text.rfind('#')));
}

Result<std::string> ReadProcessAddress(const std::string& what, const std::string& text) {
  const std::string address = IsLocalAddress(AddressOf(text)) ? text : AddressOf(text);
  if (IsProcessAddress(address)) return address;
  if (IsLocalAddress(address)) {
    return Invalid(what + " is " + QuoteExcerpt(address) + ": " + FaultOfPath(SocketPathOf(address)));
  }
  const std::string said = what + " takes HOST:PORT or ipc:///PATH, not " + QuoteExcerpt(text);
  if (!HasKeyOrNone(address))
    return Invalid(said + ": a key, after #, has 64 hexadecimal digits; two have a comma between them");
  const std::size_t scheme = address.find("://");
  if (scheme == address.npos) return Invalid(said + (IsHostPort(address + ":1") ? ": the port is missing" : ""));
  const std::string rest = address.substr(scheme + 3, address.find('/', scheme + 3) - scheme - 3);
  return Invalid(said + "; write " + (IsProcessAddress(rest) ? rest : "HOST:PORT") + ", without " +
                 QuoteExcerpt(address.substr(0, scheme + 3)));
}

std::string EndpointOf(const std::string& address) {
  return IsLocalAddress(address) ? address : std::string(kTcp) + address;
}

std::string AddressOf(const std::string& endpoint) {
  return endpoint.starts_with(kTcp) ? endpoint.substr(kTcp.size()) : endpoint;
}

bool CanBeExposed(const std::string& address) {
  return !IsLocalAddress(address) && KeyInAddress(address).empty() && !IsLoopback(HostOf(address));
}

std::string MachineOf(const std::string& address) { return IsLocalAddress(address) ? "127.0.0.1" : HostOf(address); }

}  // namespace capstan
