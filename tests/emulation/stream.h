// Stream: a thread that executes enqueued work in order. Event: marks a point in a stream's work, for which other
// threads can wait.
//
// Kind:   one host thread enqueues on a stream; any thread may wait for an event.
// Limits: memory is ordered only as CUDA promises: from the host to the work it enqueues, along a stream, and through
//         events and waits. So a missing wait is a data race, which TSan reports. It may miss one behind a wait for an
//         event that was recorded again meanwhile: a late stream takes the newest recording that is complete.
// Why:    the overlap of copies and computation can be tested without a GPU. With CAPSTAN_EMULATED_DELAYS=SEED work is
//         late at random; after RunLate(true) it is as late as CUDA allows, so a missing wait gives a wrong result even
//         without TSan.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "tests/emulation/progress.h"

namespace capstan::emulation {

// With true, streams execute work that is enqueued from now on only when the host or another stream waits for it.
void RunLate(bool late);

class Stream;

// One recording of an event on a stream.
struct Mark {
  std::uint32_t ticket = 0;  // 0: the event was never recorded
  Stream* stream = nullptr;  // the stream that completes the event, and outlives it; null: waiters just wait
  std::uint32_t place = 0;   // how much had been enqueued on the stream by then
};

class Event {
 public:
  // Starts to record the event, on the host. The stream later calls Complete with the returned ticket.
  std::uint32_t NewTicket(Stream* stream = nullptr, std::uint32_t place = 0);
  const Mark& newest() const { return newest_; }
  void Complete(std::uint32_t ticket);
  bool Is(std::uint32_t ticket) const { return completed_.Has(ticket); }
  // Returns the time at which the event last completed.
  std::chrono::steady_clock::time_point time() const { return time_.load(std::memory_order_relaxed); }
  void Wait(const Mark& mark);

 private:
  Mark newest_;
  Progress completed_;
  std::atomic<std::chrono::steady_clock::time_point> time_{};
};

class Stream {
 public:
  Stream();
  // Executes the remaining work first.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Enqueue(std::function<void()> work);
  void Record(Event* event);
  void WaitFor(Event* event);
  // Waits until all enqueued work is done.
  void Synchronize();
  // Lets the stream execute its first `place` pieces of work; a late stream needs this.
  void Begin(std::uint32_t place) { begun_.Reach(place); }

 private:
  struct Node {
    std::function<void()> work;
    std::atomic<Node*> next = nullptr;
  };
  void Run(Node* head);

  Node* tail_;
  std::uint32_t enqueued_ = 0;
  Progress begun_;  // how much of its work the stream may execute
  Event done_;
  std::thread thread_;
};

}  // namespace capstan::emulation
