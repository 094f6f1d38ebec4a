// MemberSockets: TCP connections among the members of a group, who have proved to each other that they are members.
//
// Kind:   owned by one thread, while a group is formed.
// Limits: kCandidatesMax connections wait until their introduction is read, each for kIntroductionMax; one more ends
//         the oldest.
// Fails:  kUnreachable, which names the ranks to which there is no connection; kInvalid: what another rank published.
// Why:    Gloo's own listeners take whoever connects first for a member, and are open from before addresses are
//         exchanged. With these sockets no byte of a stranger gets to Gloo. Nothing is read from a connection until
//         addresses have been exchanged, however long that takes.
//
// The address that a member publishes (HOST:PORT#SHARE) carries its share of the group's secret. A rank connects to
// each lower one, and sends its rank, the connection's number and a proof; the other one answers with a proof. The
// proofs keep strangers out who cannot read the network. Nothing is encrypted: on a network that others read, use a
// SecureMesh.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/keys/group_proof.h"
#include "worker/collective/mesh_options.h"

namespace capstan::collective {

// A descriptor of a socket, which is closed with it.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept {
    Socket before(std::move(other));
    std::swap(descriptor_, before.descriptor_);
    return *this;
  }
  ~Socket();

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

class MemberSockets {
 public:
  static constexpr std::size_t kCandidatesMax = 64;
  static constexpr std::chrono::seconds kIntroductionMax{2};

  // Listens at `host`, an address of this machine, at a port that the system chooses.
  static Result<MemberSockets> Listen(const std::string& host);
  // The address to publish.
  const std::string& address() const { return address_; }

  // Connects to the ranks that have published `addresses`, `count` times to each, and stops listening.
  Status Connect(const MeshOptions& options, std::size_t count, const std::vector<std::string>& addresses,
                 Deadline deadline);
  // Takes out the connection of this number, from 0, to a rank.
  Socket Take(int rank, std::size_t number) { return std::move(connections_[static_cast<std::size_t>(rank)][number]); }

 private:
  struct Candidate;  // a connection to this rank whose other end has not proved yet that it is a member

  MemberSockets(Socket listener, std::string address) : listener_(std::move(listener)), address_(std::move(address)) {}
  Status ConnectTo(int rank, std::size_t number, const std::string& address, Deadline deadline);
  // Accepts connections until all higher ranks have made theirs.
  void AcceptAll(Deadline deadline);
  // Returns false if no connection could be accepted.
  bool Accept(std::vector<Candidate>* candidates) const;
  // Reads what has come of a candidate's introduction. When that is whole, the candidate's socket becomes a connection
  // of its rank, or is closed.
  void ReadIntroduction(Candidate* candidate);
  RankSet Missing() const;

  Socket listener_;
  std::string address_;
  int rank_ = 0;
  std::optional<GroupProof> group_;               // none before Connect
  std::vector<std::vector<Socket>> connections_;  // by rank and number
};

}  // namespace capstan::collective
