// Segment: the memory that the ranks of one communicator share, whether in one process or in several.
//
// Kind:   one for each rank; a rank writes to its own place alone.
// Fails:  null when the system has no memory to share.
// Why:    it comes zeroed, so whoever comes first makes it; whoever is done with it takes its name away, and it is gone
//         when the last one has gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace capstan::stand_in {

constexpr int kRanksMax = 8;
constexpr int kSplitsMax = 16;
constexpr std::size_t kChunkBytes = 64u << 10;

// What all ranks are to call alike, or the two between which a call is.
struct Signature {
  int kind = 0, type = 0, root = 0;
  std::size_t count = 0;
  bool operator==(const Signature&) const = default;
};

struct SplitPlace {
  std::atomic<bool> is_posted;
  int color, key;
};

struct Place {
  std::atomic<bool> has_joined;
  std::atomic<std::uint64_t> steps;                              // that this rank has come to
  std::array<std::atomic<std::uint64_t>, kRanksMax> steps_with;  // those of calls with one other rank
  Signature call;
  std::array<SplitPlace, kSplitsMax> splits;
  alignas(64) std::byte chunk[kChunkBytes];
};

struct Layout {
  std::atomic<std::uint32_t> news;  // counts what Tell was called for
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
  // Who waits looks again.
  void Tell();
  // Until there is more than `known`, or some time has passed.
  void AwaitNews(std::uint32_t known);
  // Nobody finds it any more.
  void TakeNameAway();

 private:
  Segment(std::string name, Layout* layout) : name_(std::move(name)), layout_(layout) {}

  const std::string name_;
  Layout* const layout_;
};

}  // namespace capstan::stand_in
