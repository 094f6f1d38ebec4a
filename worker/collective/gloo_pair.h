// CreateGlooContext: a context of Gloo whose connections are sockets that exist already.
//
// Kind:   a function; gloo_mesh.cc uses it alone.
// Fails:  throws Gloo's exceptions.
// Why:    a pair of Gloo's listens as soon as it is made, and takes the first connection for its peer; and an error in
//         Gloo's own thread ends the process. Both are mended in a class that derives from Gloo's, as Gloo's own pairs
//         over TLS do. A pair still listens, on a loopback address, for the microseconds until it gets its socket.
#pragma once

#include <memory>

#include "worker/collective/member_sockets.h"

namespace gloo::transport {
class Context;
class Device;
}  // namespace gloo::transport

namespace capstan::collective {

// Takes connection `number` to each rank out of `sockets`.
std::shared_ptr<gloo::transport::Context> CreateGlooContext(const std::shared_ptr<gloo::transport::Device>& device,
                                                            int rank, int size, MemberSockets* sockets,
                                                            std::size_t number);

}  // namespace capstan::collective
