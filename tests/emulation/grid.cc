#include "tests/emulation/grid.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/fiber.h"
#include "tests/emulation/race_detector.h"

namespace capstan::emulation {
namespace {

constexpr unsigned kWarp = 32, kThreadsMax = 1024, kWholeWarp = 0xFFFFFFFF, kNobody = 0xFFFFFFFF;
constexpr int kNothing = -1, kVotes = -2;  // values of Thread::from that are no lane

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

// A permutation of the numbers 0 to kWarp - 1.
struct Order {
  unsigned turn = 0, flip = 0;
  unsigned operator[](unsigned i) const { return ((i + turn) % kWarp) ^ flip; }
};
constexpr Order kAscending{0, 0}, kDescending{0, kWarp - 1};

// Makes random orders with Marsaglia's xorshift: a number is drawn for every few fiber switches, and must cost little.
class Orders {
 public:
  bool Coin() { return (Next() & 1) != 0; }
  Order Any() {
    const auto number = static_cast<unsigned>(Next());
    if (number % 4 == 0) return kAscending;
    if (number % 4 == 1) return kDescending;
    return {number >> 2 & (kWarp - 1), number >> 7 & (kWarp - 1)};
  }

 private:
  static std::uint64_t Seed() {
    const char* text = std::getenv("CAPSTAN_EMULATED_ORDER");
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }
  std::uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 24;
  }
  std::uint64_t state_ = (Seed() + 1) * 0x9E3779B97F4A7C15;
};

struct Thread {
  Place place;
  Fiber* fiber = nullptr;  // the fiber that the thread runs on since it began
  // While the thread waits for its warp: the lanes it waits for, and the values it gives and takes.
  unsigned mask = 0;
  int from = kNothing;
  std::uint64_t given = 0, taken = 0;
};

// A warp's threads: a bit for each lane. Lanes that the block does not have count as done.
struct Warp {
  unsigned ready = 0, at_block = 0, at_warp = 0, done = 0;
  unsigned meetings = 0;
  std::array<char, 3> places{};  // for memory order: two in turn for whole warps, one for others
};

// Runs one block after the other. Each thread of a block begins on a free fiber, so if no thread waits, all threads run
// on one fiber. With ThreadSanitizer each thread has a fiber of its own.
class Runner {
 public:
  ~Runner();
  void RunBlock(Size3 blocks, Size3 threads, Size3 index, const std::function<void()>& body);

  const Place& place() const { return threads_[running_].place; }
  unsigned lane() const { return running_ % kWarp; }
  void WaitForBlock();
  void WaitForWarp(unsigned mask);
  std::uint64_t Exchange(unsigned mask, int from, std::uint64_t given);

 private:
  void Begin(Size3 blocks, Size3 threads, Size3 index);
  void RunFiber(Fiber& own);
  void GoOn(Fiber& own, bool is_free);
  void NewFiber();
  Fiber& FiberFor(unsigned thread);
  void Meet(unsigned mask, int from, std::uint64_t given);

  unsigned Choose();
  bool NextWarp();
  Order NextOrder() { return is_first_round_ ? first_order_ : orders_.Any(); }
  void ReleaseWarp(unsigned warp);
  void HandOver(unsigned warp, unsigned lanes);
  bool ReleaseBlock();
  std::string Waiting() const;

  Orders orders_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  unsigned running_ = 0;
  const std::function<void()>* body_ = nullptr;

  // The order in which threads run: the lanes of a warp, then perhaps the same warp again, then another one.
  Order first_order_ = kDescending, lane_order_, warp_order_;
  unsigned warp_ = 0, lane_at_ = 0, warp_at_ = 0;
  bool is_first_round_ = true;

  unsigned meetings_ = 0;         // meetings of the whole block
  std::array<char, 2> places_{};  // addresses for memory order, used in turn
  char begun_ = 0, ended_ = 0;    // for memory order
  bool ends_ = false;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
};

thread_local Runner* current = nullptr;

Runner::~Runner() {
  ends_ = true;
  for (const std::unique_ptr<Fiber>& fiber : fibers_) main_.SwitchTo(*fiber);
}

void Runner::Begin(Size3 blocks, Size3 threads, Size3 index) {
  const unsigned count = threads.x * threads.y * threads.z;
  threads_.resize(count);
  unsigned next = 0;
  for (unsigned z = 0; z < threads.z; ++z) {
    for (unsigned y = 0; y < threads.y; ++y) {
      for (unsigned x = 0; x < threads.x; ++x) {
        threads_[next].place = {{x, y, z}, index, threads, blocks};
        threads_[next++].fiber = nullptr;
      }
    }
  }
  warps_.resize((count + kWarp - 1) / kWarp);
  for (Warp& warp : warps_) warp.ready = kWholeWarp, warp.done = 0;
  if (count % kWarp != 0) warps_.back().ready = (1U << count % kWarp) - 1, warps_.back().done = ~warps_.back().ready;
  is_first_round_ = true;
  first_order_ = first_order_.flip == 0 ? kDescending : kAscending;
  warp_order_ = first_order_;
  warp_at_ = 0;
}

void Runner::RunBlock(Size3 blocks, Size3 threads, Size3 index, const std::function<void()>& body) {
  Begin(blocks, threads, index);
  body_ = &body;
  while (DetectsRaces() && fibers_.size() < threads_.size()) NewFiber();
  Publish(&begun_);
  NextWarp();
  running_ = Choose();
  main_.SwitchTo(FiberFor(running_));
  See(&ended_);
  for (const Warp& warp : warps_) {
    if (warp.done != kWholeWarp) Die("a CUDA block stands still: " + Waiting());
  }
}

// The work of a fiber: runs threads of the block, each from its beginning to its end.
void Runner::RunFiber(Fiber& own) {
  while (!ends_) {
    threads_[running_].fiber = &own;
    See(&begun_);
    (*body_)();
    Publish(&ended_);
    Warp& warp = warps_[running_ / kWarp];
    warp.ready &= ~(1U << lane());
    warp.done |= 1U << lane();
    GoOn(own, true);
  }
}

void Runner::NewFiber() {
  const std::size_t index = fibers_.size();
  fibers_.push_back(std::make_unique<Fiber>([this, index] { RunFiber(*fibers_[index]); }));
}

Fiber& Runner::FiberFor(unsigned thread) {
  if (DetectsRaces()) return *fibers_[thread];
  if (free_.empty()) {
    NewFiber();
    return *fibers_.back();
  }
  Fiber& fiber = *free_.back();
  free_.pop_back();
  return fiber;
}

// Switches to the next thread. The present thread, which runs on `own`, waits or, if `is_free`, has ended.
void Runner::GoOn(Fiber& own, bool is_free) {
  const unsigned next = Choose();
  Fiber* to = &main_;
  if (next != kNobody) {
    running_ = next;
    to = threads_[next].fiber;
    if (to == nullptr && is_free && !DetectsRaces()) return;
    if (to == nullptr) to = &FiberFor(next);
  }
  if (to == &own) return;
  if (is_free && !DetectsRaces()) free_.push_back(&own);
  own.SwitchTo(*to);
}

void Runner::WaitForBlock() {
  Warp& warp = warps_[running_ / kWarp];
  char* const place = &places_[meetings_ % 2];
  warp.ready &= ~(1U << lane());
  warp.at_block |= 1U << lane();
  Publish(place);
  GoOn(*threads_[running_].fiber, false);
  See(place);
}

void Runner::Meet(unsigned mask, int from, std::uint64_t given) {
  Thread& thread = threads_[running_];
  Warp& warp = warps_[running_ / kWarp];
  thread.mask = mask;
  thread.from = from;
  thread.given = given;
  warp.ready &= ~(1U << lane());
  warp.at_warp |= 1U << lane();
  GoOn(*thread.fiber, false);
}

void Runner::WaitForWarp(unsigned mask) {
  Warp& warp = warps_[running_ / kWarp];
  char* const place = &warp.places[mask == kWholeWarp ? warp.meetings % 2 : 2];
  Publish(place);
  Meet(mask, kNothing, 0);
  See(place);
}

// The threads of `mask` wait for each other. As in CUDA, this wait does not order their writes.
std::uint64_t Runner::Exchange(unsigned mask, int from, std::uint64_t given) {
  Meet(mask, from, given);
  return threads_[running_].taken;
}

unsigned Runner::Choose() {
  for (;;) {
    Warp& warp = warps_[warp_];
    while (warp.ready != 0 && lane_at_ < kWarp) {
      const unsigned lane = lane_order_[lane_at_++];
      if ((warp.ready >> lane & 1) != 0) return warp_ * kWarp + lane;
    }
    ReleaseWarp(warp_);
    if (warp.ready != 0 && orders_.Coin()) {
      lane_at_ = 0;
      lane_order_ = orders_.Any();
    } else if (!NextWarp()) {
      return kNobody;
    }
  }
}

bool Runner::NextWarp() {
  for (;;) {
    while (warp_at_ < kWarp) {
      warp_ = warp_order_[warp_at_++];
      if (warp_ >= warps_.size() || warps_[warp_].ready == 0) continue;
      lane_at_ = 0;
      lane_order_ = NextOrder();
      return true;
    }
    const bool any = std::any_of(warps_.begin(), warps_.end(), [](const Warp& warp) { return warp.ready != 0; });
    warp_ = 0;
    if (!any && !ReleaseBlock()) return false;
    is_first_round_ = false;
    warp_at_ = 0;
    warp_order_ = orders_.Any();
  }
}

// Releases those threads of a warp that wait for each other and for no other thread.
void Runner::ReleaseWarp(unsigned index) {
  Warp& warp = warps_[index];
  for (unsigned left = warp.at_warp; left != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const unsigned mask = threads_[index * kWarp + first].mask;
    unsigned lanes = 1U << first;
    for (unsigned lane = first + 1; lane < kWarp; ++lane) {
      if ((left >> lane & 1) != 0 && threads_[index * kWarp + lane].mask == mask) lanes |= 1U << lane;
    }
    left &= ~lanes;
    if ((mask & ~warp.done & ~lanes) != 0) continue;
    HandOver(index, lanes);
    warp.at_warp &= ~lanes;
    warp.ready |= lanes;
    ++warp.meetings;
  }
}

void Runner::HandOver(unsigned index, unsigned lanes) {
  Thread* const first = &threads_[index * kWarp];
  unsigned votes = 0;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(left));
    votes |= static_cast<unsigned>(first[lane].given & 1) << lane;
  }
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    Thread& thread = first[std::countr_zero(left)];
    if (thread.from == kVotes) thread.taken = votes;
    if (thread.from >= 0) thread.taken = first[thread.from].given;
  }
}

// Releases all threads that wait at the block's barrier, if all threads that have not ended wait there. Returns whether
// any was released.
bool Runner::ReleaseBlock() {
  bool any = false;
  for (const Warp& warp : warps_) {
    if ((warp.at_block | warp.done) != kWholeWarp) return false;
    any = any || warp.at_block != 0;
  }
  for (Warp& warp : warps_) {
    warp.ready = warp.at_block;
    warp.at_block = 0;
  }
  ++meetings_;
  return any;
}

std::string Runner::Waiting() const {
  std::string text;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    const Warp& warp = warps_[i / kWarp];
    if ((warp.at_block >> i % kWarp & 1) != 0) text += " thread " + std::to_string(i) + " at the block's barrier,";
    if ((warp.at_warp >> i % kWarp & 1) != 0) text += " thread " + std::to_string(i) + " at its warp's,";
    if (text.size() > 400) return text + " ...";
  }
  return text;
}

}  // namespace

void RunGrid(Size3 blocks, Size3 threads, const std::function<void()>& body) {
  static thread_local Runner runner;
  const std::uint64_t count = std::uint64_t{threads.x} * threads.y * threads.z;
  if (count == 0 || count > kThreadsMax) Die("a CUDA block of " + std::to_string(count) + " threads");
  current = &runner;
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) runner.RunBlock(blocks, threads, {x, y, z}, body);
    }
  }
}

const Place& ThisThread() { return current->place(); }

int Lane() { return static_cast<int>(current->lane()); }

void SyncBlock() { current->WaitForBlock(); }

void SyncWarp(unsigned mask) { current->WaitForWarp(mask); }

void Exchange(unsigned mask, int from, void* value, std::size_t bytes) {
  if (from < 0 || from >= static_cast<int>(kWarp) || (mask >> from & 1) == 0) {
    Die("a CUDA shuffle takes from lane " + std::to_string(from) + ", which is not in its mask");
  }
  std::uint64_t number = 0;
  std::memcpy(&number, value, bytes);
  number = current->Exchange(mask, from, number);
  std::memcpy(value, &number, bytes);
}

unsigned Ballot(unsigned mask, bool bit) { return static_cast<unsigned>(current->Exchange(mask, kVotes, bit ? 1 : 0)); }

}  // namespace capstan::emulation
