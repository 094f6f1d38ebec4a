#include "tests/emulation/stream.h"

#include <cstdlib>
#include <utility>

#include "common/base/float_control.h"
#include "common/base/random.h"

namespace capstan::emulation {
namespace {

std::atomic<std::uint64_t> streams_made{0};
std::atomic<bool> runs_late{false};

// Delays the start of about every fourth piece of work by up to 2000 yields, if CAPSTAN_EMULATED_DELAYS is set.
class Delays {
 public:
  Delays() : numbers_(Seed(), streams_made++), on_(Seed() != 0) {}
  void Take() {
    if (!on_ || numbers_.Next() % 4 != 0) return;
    for (std::uint32_t turns = numbers_.Next() % 2000; turns > 0; --turns) std::this_thread::yield();
  }

 private:
  static std::uint64_t Seed() {
    const char* text = std::getenv("CAPSTAN_EMULATED_DELAYS");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }
  RandomStream numbers_;
  bool on_;
};

}  // namespace

void RunLate(bool late) { runs_late = late; }

std::uint32_t Event::NewTicket(Stream* stream, std::uint32_t place) {
  newest_ = {newest_.ticket + 1, stream, place};
  return newest_.ticket;
}

// If an event is recorded on two streams, the earlier recording may complete last. completed_ still does not go back.
void Event::Complete(std::uint32_t ticket) {
  time_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  completed_.Reach(ticket);
}

void Event::Wait(const Mark& mark) {
  if (!Is(mark.ticket) && mark.stream != nullptr) mark.stream->Begin(mark.place);
  completed_.WaitFor(mark.ticket);
}

Stream::Stream() : tail_(new Node), thread_([this, head = tail_] { Run(head); }) {}

Stream::~Stream() {
  Enqueue(nullptr);
  Begin(enqueued_);
  thread_.join();
  delete tail_;
}

// The queue is a list, and the stream frees its nodes. So the queue does not order the stream's work before what the
// host does next. A piece of work comes after what the host did before enqueuing it, which `next` orders, but not
// after what the host did later. So begun_ orders nothing: it may have grown further. The new node may therefore be
// visible a moment later than begun_.
void Stream::Run(Node* head) {
  const FloatControl control;
  Delays delays;
  for (std::uint32_t taken = 1;; ++taken) {
    begun_.WaitFor(taken, std::memory_order_relaxed);
    Node* next = nullptr;
    while (next == nullptr) next = head->next.load(std::memory_order_acquire);
    delete head;
    head = next;
    const std::function<void()> work = std::move(head->work);
    if (!work) return;
    delays.Take();
    work();
  }
}

void Stream::Enqueue(std::function<void()> work) {
  Node* const added = new Node{std::move(work)};
  tail_->next.store(added, std::memory_order_release);
  tail_ = added;
  ++enqueued_;
  if (!runs_late.load(std::memory_order_relaxed)) Begin(enqueued_);
}

void Stream::Record(Event* event) {
  const std::uint32_t ticket = event->NewTicket(this, enqueued_ + 1);
  Enqueue([event, ticket] { event->Complete(ticket); });
}

void Stream::WaitFor(Event* event) {
  Enqueue([event, mark = event->newest()] { event->Wait(mark); });
}

void Stream::Synchronize() {
  Record(&done_);
  done_.Wait(done_.newest());
}

}  // namespace capstan::emulation
