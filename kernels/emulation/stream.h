// Stream, Event: a thread that does what is enqueued, in order, and marks that other threads wait for.
//
// Kind:   one host thread enqueues on a stream; any may wait for an event.
// Limits: memory is ordered as CUDA promises and no more: from the host to what it enqueues, along a stream, and
// through
//         events and waits. So a missing wait is a data race, which TSan reports.
// Why:    the overlap engine runs on machines without a GPU. With CAPSTAN_EMULATED_DELAYS=SEED work is late at random.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace capstan::emulation {

class Event {
 public:
  // The host's side of recording; the stream Completes what this returned.
  std::uint64_t NewTicket() { return ++recorded_; }
  std::uint64_t newest() const { return recorded_; }
  void Complete(std::uint64_t ticket);
  bool Is(std::uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
  // When it was completed last.
  std::chrono::steady_clock::time_point time() const { return time_.load(std::memory_order_relaxed); }
  void Wait(std::uint64_t ticket) const;

 private:
  std::uint64_t recorded_ = 0;
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::chrono::steady_clock::time_point> time_{};
};

class Stream {
 public:
  Stream();
  // Does first what was enqueued.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Enqueue(std::function<void()> work);
  void Record(Event* event);
  void WaitFor(Event* event);
  // Until all that was enqueued is done.
  void Synchronize();

 private:
  struct Node {
    std::function<void()> work;
    Node* next = nullptr;
  };
  void Run(Node* head);

  Node* tail_;
  std::atomic<std::uint64_t> enqueued_{0};
  Event done_;
  std::thread thread_;
};

}  // namespace capstan::emulation
