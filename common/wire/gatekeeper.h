// Gatekeeper: answers libzmq's questions who may connect to a transport with keys (ZAP, ZeroMQ's RFC 27).
//
// Kind:   a thread, owned by its transport.
// Fails:  Start: kUnreachable, without file descriptors.
// Why:    libzmq asks during each handshake, and the transport's own thread may be busy for longer than a handshake may
//         take.
//
// A peer that is admitted is known by its public key (the user id of its messages) for as long as the connection lasts;
// what the key may do is looked up for each message, so that a key can be revoked.
#pragma once

#include <memory>
#include <thread>

#include "common/base/status.h"
#include "common/keys/admission.h"
#include "common/wire/zmq_call.h"

namespace capstan {

class Gatekeeper {
 public:
  // Call it before a socket of the context listens.
  static Result<std::unique_ptr<Gatekeeper>> Start(zmq::context_t* context, std::shared_ptr<Admission> admission);
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;
  ~Gatekeeper();

 private:
  Gatekeeper(zmq::socket_t questions, int stop, std::shared_ptr<Admission> admission);
  void Run();
  void Answer();

  zmq::socket_t questions_;
  const int stop_;  // an eventfd
  const std::shared_ptr<Admission> admission_;
  std::thread thread_;
};

}  // namespace capstan
