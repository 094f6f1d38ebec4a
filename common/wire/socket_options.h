// SetOptions, SetKeys, SetServerKey: how a transport's sockets are set up.
//
// Kind:   functions.
// Fails:  SetOptions and SetKeys throw zmq::error_t; call them within CallZmq.
#pragma once

#include <optional>

#include "common/keys/key_pair.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_call.h"

namespace capstan {

// Sets limits and times, and whom a ROUTER admits or which routing id a DEALER has.
void SetOptions(const TransportOptions& options, zmq::socket_type type, zmq::socket_ref socket);

// Encrypts the socket's connections with `keys`. `server_key`: the key that the peer of a DEALER has to prove.
void SetKeys(const KeyPair& keys, const std::optional<PublicKey>& server_key, zmq::socket_ref socket);

// Sets the key that the peer of a DEALER has to prove on its next connection.
void SetServerKey(const PublicKey& key, zmq::socket_ref socket);

}  // namespace capstan
