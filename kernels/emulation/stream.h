// Stream, Event: a thread that does what is enqueued, in order, and marks that other threads wait for.
//
// Kind:   one host thread enqueues on a stream; any may wait for an event.
// Limits: memory is ordered as CUDA promises and no more: from the host to what it enqueues, along a stream, and
//         through events and waits. So a missing wait is a data race, which TSan reports.
// Why:    the overlap engine runs on machines without a GPU. With CAPSTAN_EMULATED_DELAYS=SEED work is late at random;
//         after RunLate it is as late as CUDA allows, so that without TSan a missing wait is a wrong result.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace capstan::emulation {

// From now on a stream does what is enqueued only when that is waited for, by the host or by another stream.
void RunLate(bool late);

class Stream;

// One time that an event was recorded.
struct Mark {
  std::uint64_t ticket = 0;  // 0: never
  Stream* stream = nullptr;  // on which, null where nobody has to be asked; lives until the event is Complete
  std::uint64_t place = 0;   // how much was enqueued on it then
};

class Event {
 public:
  // The host's side of recording; the stream Completes the ticket that this returned.
  std::uint64_t NewTicket(Stream* stream = nullptr, std::uint64_t place = 0);
  const Mark& newest() const { return newest_; }
  void Complete(std::uint64_t ticket);
  bool Is(std::uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
  // When it was completed last.
  std::chrono::steady_clock::time_point time() const { return time_.load(std::memory_order_relaxed); }
  void Wait(const Mark& mark) const;

 private:
  Mark newest_;
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
  // What was enqueued up to `place` is waited for.
  void Begin(std::uint64_t place);

 private:
  struct Node {
    std::function<void()> work;
    Node* next = nullptr;
  };
  void Run(Node* head);

  Node* tail_;
  std::uint64_t enqueued_ = 0;
  std::atomic<std::uint64_t> begun_{0};  // how much of it may be done
  Event done_;
  std::thread thread_;
};

}  // namespace capstan::emulation
