#include "cli/run/beat_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "common/base/status.h"

namespace capstan::cli {

BeatThread::BeatThread(const EventWriter& events) {
  if (!events.launched()) return;
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  CAPSTAN_CHECK(end_fd_ >= 0);
  thread_ = std::thread([this, &events] {
    pthread_setname_np(pthread_self(), "beats");
    pollfd end{end_fd_, POLLIN, 0};
    do {
      events.Heartbeat();
    } while (poll(&end, 1, kBeatMs) == 0);
  });
}

BeatThread::~BeatThread() {
  if (end_fd_ < 0) return;
  const std::uint64_t one = 1;
  CAPSTAN_CHECK(write(end_fd_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(end_fd_);
}

}  // namespace capstan::cli
