// ProcessAddress: the address of a process of a job, as users, job files and commands write it: HOST:PORT for TCP,
// HOST:PORT#KEY for TCP with keys (KEY: 64 hexadecimal digits, the public key that the process there has to prove, or
// two of them, KEY,KEY, of which it has to prove one), or ipc:///PATH for a Unix socket of this machine.
//
// Kind:   pure functions.
// Limits: a socket's path has at most kSocketPathBytesMax bytes, by the operating system's rule.
// Why:    addresses come from peers and users; a bad one is refused before it is connected to, stored or shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kSocketPathBytesMax = 107;

// Whether the address, or the endpoint, is a socket of this machine. The path is not checked.
bool IsLocalAddress(std::string_view address);
// Returns the path in the local address.
std::string SocketPathOf(const std::string& local_address);
// Returns the local address of a socket in `folder`, an absolute path.
std::string LocalAddress(const std::string& folder, const std::string& name);

// Returns the key, or the two keys, of an address or endpoint for TCP; empty if it has none.
std::string_view KeyInAddress(std::string_view address);
// Returns the keys one by one.
std::vector<std::string_view> KeysInAddress(std::string_view address);
// Returns the address or endpoint without its key.
std::string WithoutKey(const std::string& address);
std::string WithKey(const std::string& address, const std::string& key);

// Whether the address has no key, or one or two of 64 hexadecimal digits.
bool HasKeyOrNone(std::string_view address);
// Whether the text is HOST:PORT with a port from 1, and perhaps a key, or ipc:// and an absolute path that is short
// enough.
bool IsProcessAddress(std::string_view text);
// Returns the address in what a person wrote, which may have "tcp://" in front as an endpoint has it; else kInvalid.
// `what` names the flag or argument that has the text.
Result<std::string> ReadProcessAddress(const std::string& what, const std::string& text);

// Returns the endpoint that a Transport takes: "tcp://" is put before HOST:PORT.
std::string EndpointOf(const std::string& address);
// Returns the address of an endpoint: "tcp://" is cut off.
std::string AddressOf(const std::string& endpoint);
// Whether other machines can reach the address without a key: it is for TCP, has no key, and its host is no loopback
// address. (Of a name only "localhost" is known to be one.)
bool CanBeExposed(const std::string& address);
// Returns the host of the machine on which the process is: 127.0.0.1 for a local address.
std::string MachineOf(const std::string& address);

}  // namespace capstan
