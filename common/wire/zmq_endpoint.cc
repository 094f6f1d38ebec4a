#include "common/wire/zmq_endpoint.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/base/process_address.h"
#include "common/wire/local_endpoint.h"
#include "common/wire/zmq_call.h"

namespace capstan {

namespace {

// Whether the text is a port, or "*" for any. libzmq itself would take port 99999 for 34463.
bool IsPort(std::string_view text) {
  if (text == "*") return true;
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port <= 65535;
}

}  // namespace

Result<std::string> CheckEndpoint(const std::string& endpoint) {
  if (IsLocalAddress(endpoint)) return CheckLocalEndpoint(endpoint);
  const std::string_view port = std::string_view(endpoint).substr(endpoint.rfind(':') + 1);
  if (endpoint.starts_with("tcp://") && IsPort(port)) return endpoint;
  return Invalid("\"" + endpoint + "\" is not an address; write tcp://HOST:PORT or ipc:///PATH");
}

std::string ReasonOf(int error, bool is_tcp) {
  switch (error) {
    case EADDRINUSE: return "address already in use; stop the process that holds it or choose another port";
    case EADDRNOTAVAIL:
    case ENODEV: return "this machine has no such address; use one of its own in numbers, or 0.0.0.0 for all of them";
    case EACCES: return is_tcp ? "not permitted; choose a port of 1024 or above" : "no permission to create that file";
    case EINVAL: return "not an address; write tcp://HOST:PORT or ipc:///PATH";
    case EMFILE: return "too many sockets or open files; raise the limit (ulimit -n)";
    default: return zmq_strerror(error);
  }
}

Status EndpointFailure(const char* what, const std::string& endpoint, int error) {
  return Invalid(std::string("cannot ") + what + " " + endpoint + ": " +
                 ReasonOf(error, endpoint.starts_with("tcp://")));
}

Principal SenderAt(const std::string& endpoint) {
  return {IsLocalAddress(endpoint) ? Role::kThisUser : Role::kAnyone, ""};
}

Result<Target> TargetOf(const std::string& endpoint, bool has_keys) {
  Target target;
  CAPSTAN_ASSIGN_OR_RETURN(target.address, CheckEndpoint(WithoutKey(endpoint)));
  const std::vector<std::string_view> keys = KeysInAddress(endpoint);
  const bool local = IsLocalAddress(target.address);
  if (local || (keys.empty() && !has_keys)) return target;
  if (keys.empty()) {
    return Invalid(endpoint + " has no key, and this process talks only to processes that prove one; write " +
                   endpoint + "#KEY, with the public key of the process there");
  }
  if (!has_keys) {
    return Invalid(target.address + " asks for a key of this process: name a key file, as CAPSTAN_KEY_FILE=worker.key");
  }
  for (const std::string_view text : keys) {
    CAPSTAN_ASSIGN_OR_RETURN(const PublicKey key, ParsePublicKey("the key in " + endpoint, text));
    target.keys.push_back(key);
  }
  return target;
}

Status CheckOwnKey(const std::string& endpoint, const KeyPair* keys) {
  const std::vector<std::string_view> wanted_keys = KeysInAddress(endpoint);
  if (wanted_keys.empty()) return {};
  const std::string own = keys == nullptr ? "" : TextOf(keys->public_key);
  const bool is_wanted = keys != nullptr && std::any_of(wanted_keys.begin(), wanted_keys.end(), [&](auto key) {
                           const Result<PublicKey> parsed = ParsePublicKey("the key", key);  // digits may be capitals
                           return parsed.ok() && *parsed == keys->public_key;
                         });
  if (is_wanted) return {};
  const std::string wanted =
      "cannot listen on " + WithoutKey(endpoint) + ": that address has the key " + std::string(KeyInAddress(endpoint));
  if (keys == nullptr) return Invalid(wanted + ", and this process has none; name its key file");
  return Invalid(wanted + ", and the key file of this process has " + own + "; give both the same key");
}

std::string ExplainFailure(HandshakeFailure failure, const std::string& address, const std::vector<PublicKey>& keys) {
  switch (failure) {
    case HandshakeFailure::kRefused:
      return address +
             " does not admit the key of this process; add its public key to allow.toml there, or check expires";
    case HandshakeFailure::kMechanism:
      if (!keys.empty()) return address + " has no key: its job does not have [security] transport = \"curve\"";
      return address + " asks for keys: write its address as HOST:PORT#KEY, and name a key file of this process";
    case HandshakeFailure::kClosed: break;
  }
  std::string wanted;
  for (const PublicKey& key : keys) wanted += (wanted.empty() ? "" : " or ") + TextOf(key);
  return "the process at " + address + " does not have the key " + wanted +
         ", or has none; compare it with public_key in that process's key file";
}

std::string ZmqVersion() {
  const auto [major, minor, patch] = zmq::version();
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace capstan
