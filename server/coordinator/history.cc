#include "server/coordinator/history.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "common/base/utf8.h"

namespace capstan::server {
namespace {

constexpr std::size_t kDots = 3;  // Excerpt puts them behind a text that it cuts

using Object = nlohmann::ordered_json;

// The page's names of events, by AuditKind; null: not shown.
constexpr std::array<const char*, kAuditKinds> kEventNames = {
    "join", nullptr, nullptr, "leave", "recovery", nullptr, "lost", "set_aside", "start", "snapshot", "end"};

// Rounds to six digits, which are enough for a curve. A number that is not finite becomes null in JSON.
double Rounded(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.6g", value);
  return std::strtod(digits.data(), nullptr);
}

double Milliseconds(double time) { return std::round(time * 1000) / 1000; }

}  // namespace

void History::Mean::Add(double value) {
  if (!std::isfinite(value)) return;
  sum += value;
  ++count;
}

void History::Mean::Add(const Mean& other) {
  sum += other.sum;
  count += other.count;
}

double History::Mean::value() const {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

History::Point History::PointOf(const StepRecord& record) {
  Point point;
  point.step = record.step.value;
  point.time = record.time;
  point.loss.Add(record.loss);
  if (record.validation_loss) point.validation_loss.Add(*record.validation_loss);
  point.learning_rate.Add(record.learning_rate);
  point.gradient_norm.Add(record.gradient_norm);
  point.samples = static_cast<double>(record.samples);
  point.seconds = record.seconds;
  return point;
}

void History::Merge(const Point& later, Point* into) {
  into->step = later.step;
  into->time = later.time;
  into->loss.Add(later.loss);
  into->validation_loss.Add(later.validation_loss);
  into->learning_rate.Add(later.learning_rate);
  into->gradient_norm.Add(later.gradient_norm);
  into->samples += later.samples;
  into->seconds += later.seconds;
}

void History::AddStep(const StepRecord& record) {
  const Point point = PointOf(record);
  while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();  // the step is done again
  while (points_.size() >= kPointsMax && !AreNeighbours(points_.back(), point)) DoubleStride();
  if (!points_.empty() && AreNeighbours(points_.back(), point)) return Merge(point, &points_.back());
  points_.push_back(point);
}

void History::DoubleStride() {
  stride_ *= 2;
  std::size_t last = 0;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    if (AreNeighbours(points_[last], points_[i])) {
      Merge(points_[i], &points_[last]);
    } else {
      points_[++last] = points_[i];
    }
  }
  points_.resize(last + 1);
}

void History::AddEvent(const AuditEntry& entry, double time, std::uint64_t step) {
  const auto kind = static_cast<std::size_t>(entry.kind);
  if (kEventNames[kind] == nullptr) return;
  if (events_.size() >= kEventsMax) {
    const auto most = static_cast<AuditKind>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin());
    events_.erase(std::find_if(events_.begin(), events_.end(), [&](const Event& event) { return event.kind == most; }));
    --counts_[static_cast<std::size_t>(most)];
  }
  ++counts_[kind];
  events_.push_back({time, step, entry.kind, Excerpt(entry.text, kEventTextMax - kDots)});
}

std::uint64_t History::StepsAt(double time) const {
  const auto later = std::upper_bound(points_.begin(), points_.end(), time,
                                      [](double at, const Point& point) { return at < point.time; });
  return later == points_.begin() ? 0 : std::prev(later)->step + 1;
}

std::string History::Json() const {
  Object json = {{"steps_per_point", stride_}, {"points", Object::array()}, {"events", Object::array()}};
  for (const Point& point : points_) {
    Object shown = {{"step", point.step}, {"time", Milliseconds(point.time)}, {"loss", Rounded(point.loss.value())}};
    if (point.validation_loss.count > 0) shown["validation_loss"] = Rounded(point.validation_loss.value());
    shown["learning_rate"] = Rounded(point.learning_rate.value());
    shown["grad_norm"] = Rounded(point.gradient_norm.value());
    shown["samples_per_second"] = Rounded(point.samples / point.seconds);
    json["points"].push_back(std::move(shown));
  }
  for (const Event& event : events_) {
    json["events"].push_back({{"time", Milliseconds(event.time)},
                              {"step", event.step},
                              {"kind", kEventNames[static_cast<std::size_t>(event.kind)]},
                              {"text", event.text}});
  }
  return json.dump(-1, ' ', false, Object::error_handler_t::replace);
}

}  // namespace capstan::server
