// Segment: the memory shared by the ranks of a communicator, in one process or in several.
//
// Kind:   each rank has a Segment object and writes only to its own Place.
// Fails:  Open returns null if the system has no memory to share.
// Why:    the memory comes zeroed, so whichever rank is first can create it. Its name is removed once all ranks have
//         joined or one has ended, and the memory is freed after the last rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace capstan::stand_in {

constexpr int kRanksMax = 8;
constexpr std::size_t kChunkBytes = 64u << 10;

// What must be the same in the calls of all ranks, or in those of the sender and the receiver.
struct Signature {
  int kind = 0, type = 0, from = 0;  // the last: the sender, between two ranks
  std::size_t count = 0;
  bool operator==(const Signature&) const = default;
};

struct Place {
  std::atomic<bool> has_joined;
  std::atomic<std::uint64_t> steps;                              // steps that this rank has reached
  std::array<std::atomic<std::uint64_t>, kRanksMax> steps_with;  // the same for calls with one other rank
  Signature call;
  alignas(64) std::byte chunk[kChunkBytes];
};

struct Layout {
  std::atomic<std::uint32_t> news;  // number of calls of Tell
  Place places[kRanksMax];
};

class Segment {
 public:
  static std::unique_ptr<Segment> Open(const std::string& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Place& operator[](int rank) { return layout_->places[rank]; }
  std::uint32_t news() const { return layout_->news; }
  // Wakes the ranks that wait.
  void Tell();
  // Waits until news() is no longer `known`, but only a short time.
  void AwaitNews(std::uint32_t known);
  // Removes the name, so that no rank finds it any more.
  void TakeNameAway();

 private:
  Segment(std::string name, Layout* layout) : name_(std::move(name)), layout_(layout) {}

  const std::string name_;
  Layout* const layout_;
};

}  // namespace capstan::stand_in
