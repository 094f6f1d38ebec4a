// The target parses an address from the job file or the command line. A refusal must say what is wrong, and the port of
// an address must be readable and changeable.
#include "cli/run/address.h"

#include <arpa/inet.h>

#include "common/base/host_port.h"
#include "common/base/process_address.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

// Whether the host is a numeric IPv4 address. A name would be looked up on the network.
bool IsNumeric(const std::string& host) {
  in_addr number{};
  return inet_pton(AF_INET, host.c_str(), &number) == 1;
}

void RunAddress(std::string_view text) {
  const std::string address(text);
  const std::uint16_t port = cli::PortOf(address);
  Require(AddressOf(EndpointOf(address)) == address, "an endpoint has its address");
  const Result<std::string> read = ReadProcessAddress("--coordinator", address);
  const Status& status = read.status();
  if (IsLocalAddress(address)) {
    if (!status.ok()) return RequireReason(status, "--coordinator is");
    const std::string path = SocketPathOf(address);
    return Require(path.starts_with('/') && path.size() <= kSocketPathBytesMax, "a socket has a path that is allowed");
  }
  if (!status.ok()) {
    Require(status.message().starts_with("--coordinator takes HOST:PORT"), "what is no address is answered with one");
  } else {
    Require(port != 0 && WithHost(HostOf(*read), *read) == *read, "an address is a host and a port");
  }
  const std::string moved = cli::ShiftPort(address, 1);
  if (port == 0) Require(moved == address, "an address without a port stays as it is");
  if (port != 0 && port < 65535) Require(cli::PortOf(moved) == port + 1, "a port moves by one");
  const std::string chosen = cli::ChoosePort(address);
  Require(chosen == address || (port == 0 && cli::PortOf(chosen) != 0), "only an address without a port gets one");
  const std::size_t colon = address.rfind(':', address.find('#'));
  if (colon != address.npos && chosen != address) {
    Require(chosen.starts_with(address.substr(0, colon + 1)), "the host stays");
  }
  const std::string host = address.substr(0, colon);
  if (!IsNumeric(host) && host != "*" && !host.starts_with('[')) return;
  const Result<std::string> numeric = cli::NumericHost(address);
  if (!numeric.ok()) return RequireReason(numeric.status(), address);
  Require(cli::PortOf(*numeric) == port, "a numeric address keeps its port");
}

const Registered address_text_target({"address", RunAddress});

}  // namespace
}  // namespace capstan::fuzz
