// History: the figures of a job's steps and the events among its members, for the curves of the status page.
//
// Kind:   a value.
// Limits: kPointsMax points: if there are more steps, a point has the figures of several steps. kEventsMax events: when
//         one more comes, the oldest of the kind that has the most is dropped. A text has kEventTextMax bytes.
// Why:    the whole job stays visible, however long it is. Steps that are done again after a recovery take the places
//         of the earlier ones, as in the job itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/actor.h"
#include "update/verdict.h"

namespace capstan::server {

class History {
 public:
  static constexpr std::size_t kPointsMax = 2000, kEventsMax = 500, kEventTextMax = 300;

  void AddStep(const StepRecord& record);
  // Adds what happened at `time`, in seconds of Unix time, when `step` steps were done. Entries that are no event of
  // the page, such as refusals, are ignored.
  void AddEvent(const AuditEntry& entry, double time, std::uint64_t step);
  // Returns how many steps were done at that time, as far as the points tell.
  std::uint64_t StepsAt(double time) const;
  // Returns the history as a JSON object of at most about 600 KB.
  std::string Json() const;

  std::size_t point_count() const { return points_.size(); }
  std::size_t event_count() const { return events_.size(); }
  std::uint64_t steps_per_point() const { return stride_; }

 private:
  // The mean of those numbers that are finite.
  struct Mean {
    double sum = 0.0;
    std::uint64_t count = 0;

    void Add(double value);
    void Add(const Mean& other);
    double value() const;  // NaN if there were none
  };
  struct Point {
    std::uint64_t step = 0;  // the newest one
    double time = 0.0;
    Mean loss, validation_loss, learning_rate, gradient_norm;
    double samples = 0.0, seconds = 0.0;
  };
  struct Event {
    double time = 0.0;
    std::uint64_t step = 0;
    AuditKind kind = {};
    std::string text;
  };

  static Point PointOf(const StepRecord& record);
  static void Merge(const Point& later, Point* into);
  // Whether both are figures of one point.
  bool AreNeighbours(const Point& a, const Point& b) const { return a.step / stride_ == b.step / stride_; }
  void DoubleStride();

  std::vector<Point> points_;                      // by step
  std::uint64_t stride_ = 1;                       // a point has the figures of at most so many steps
  std::vector<Event> events_;                      // oldest first
  std::array<std::size_t, kAuditKinds> counts_{};  // of events_, by kind
};

}  // namespace capstan::server
