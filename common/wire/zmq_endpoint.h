// Endpoints of a ZmqTransport: tcp://HOST:PORT, tcp://HOST:PORT#KEY (or #KEY,KEY), ipc:///PATH; and the words for what
// is wrong with one. ZmqVersion: the version of libzmq.
//
// Kind:   functions; for a Unix socket they ask the file system.
// Fails:  kInvalid, with what to write instead.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/keys/key_pair.h"
#include "common/keys/principal.h"
#include "common/wire/watched_socket.h"

namespace capstan {

// Returns an endpoint without a key as libzmq takes it.
Result<std::string> CheckEndpoint(const std::string& endpoint);
// Whether a process with these keys, or none, may listen at an endpoint that may have a key.
Status CheckOwnKey(const std::string& endpoint, const KeyPair* keys);

// An endpoint to connect to.
struct Target {
  std::string address;          // as libzmq takes it
  std::vector<PublicKey> keys;  // the peer has to prove one of them; empty: none
};
// `has_keys`: whether the process that connects has keys.
Result<Target> TargetOf(const std::string& endpoint, bool has_keys);

// Returns what is known of the peers at the other end of connections without keys to this endpoint.
Principal SenderAt(const std::string& endpoint);

// Returns what the errno of a call means; `is_tcp`: whether the call was about a TCP endpoint.
std::string ReasonOf(int error, bool is_tcp);
// Returns the Status of a call on the endpoint that failed with `error` (an errno): "cannot WHAT ENDPOINT: ...".
Status EndpointFailure(const char* what, const std::string& endpoint, int error);
// Returns why no connection to `address` is made. `keys`: of which the peer was to prove one.
std::string ExplainFailure(HandshakeFailure failure, const std::string& address, const std::vector<PublicKey>& keys);

// Returns the version of libzmq, such as "4.3.5".
std::string ZmqVersion();

}  // namespace capstan
