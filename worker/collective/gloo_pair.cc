#include "worker/collective/gloo_pair.h"

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <unistd.h>

#include <exception>

namespace capstan::collective {
namespace {

namespace tcp = gloo::transport::tcp;

constexpr std::chrono::seconds kUnusedTimeout{
    30};  // a mesh's waits have their own; without one Gloo reads a number that is not set

class MemberPair final : public tcp::Pair {
 public:
  using tcp::Pair::Pair;
  ~MemberPair() override {
    const std::lock_guard lock(m_);
    if (state_ != CLOSED) tcp::Pair::changeState(CLOSED);
  }

  // The pair's connection is this socket from now on.
  void Adopt(Socket socket) {
    const std::lock_guard lock(m_);
    if (state_ != LISTENING) signalAndThrowException("a stranger was faster than the peer");
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = socket.get();
    try {
      handleConnected();
      (void)socket.Release();
    } catch (const std::exception& failed) {
      fd_ = -1;  // as Gloo marks a pair without a socket, which it may not close
      signalAndThrowException(failed.what());
    }
  }

  // Gloo's thread calls this, and has nothing that catches what it throws for bytes that are not its own.
  void handleEvents(int events) override {
    try {
      tcp::Pair::handleEvents(events);
    } catch (const std::exception& failed) {
      signalExceptionExternal(failed.what());
    }
  }
};

class MemberContext final : public tcp::Context {
 public:
  using tcp::Context::Context;

  void Connect(int other, Socket socket) {
    auto pair = std::make_unique<MemberPair>(this, device_.get(), other, getTimeout());
    MemberPair& made = *pair;
    pairs_[static_cast<std::size_t>(other)] = std::move(pair);
    made.Adopt(std::move(socket));
  }
};

}  // namespace

std::shared_ptr<gloo::transport::Context> CreateGlooContext(const std::shared_ptr<gloo::transport::Device>& device,
                                                            int rank, int size, MemberSockets* sockets,
                                                            std::size_t number) {
  auto context = std::make_shared<MemberContext>(std::dynamic_pointer_cast<tcp::Device>(device), rank, size);
  context->setTimeout(kUnusedTimeout);
  for (int other = 0; other < size; ++other) {
    if (other != rank) context->Connect(other, sockets->Take(other, number));
  }
  return context;
}

}  // namespace capstan::collective
