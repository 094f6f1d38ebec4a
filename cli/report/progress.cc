#include "cli/report/progress.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "cli/run/json_fields.h"
#include "common/config/job/job_section.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::json;

constexpr int kDaysShownMax = 1000;
constexpr double kSamplesMax = 1e12, kSecondsMax = 1e9;  // per step

// Returns the number at `key` in a step's record; 0 if it is missing, negative or above `max`.
double AmountIn(const Json& step, const char* key, double max) {
  const double amount = NumberIn(step, key).value_or(0);
  return amount >= 0 && amount <= max ? amount : 0;
}

// Returns the step's index, counted from 0; nothing if it has none.
std::optional<std::uint64_t> IndexIn(const Json& step) {
  const std::optional<std::uint64_t> index = CountIn(step, "step");
  return index && *index < std::numeric_limits<std::uint64_t>::max() ? index : std::nullopt;
}

std::string Format(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string Duration(double seconds) {
  if (seconds >= kDaysShownMax * 86400.0) return "more than " + std::to_string(kDaysShownMax) + " days";
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return std::to_string(whole) + " s";
  std::array<char, 64> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text.data();
}

std::vector<std::string> Progress::Update() {
  std::vector<std::string> keep;
  file_.Read([&](std::string_view line) { AddLine(line, &keep); });
  return keep;
}

void Progress::AddLine(std::string_view line, std::vector<std::string>* lines_to_keep) {
  const Json step = Json::parse(line, nullptr, false);
  if (!step.is_object()) return;
  const std::optional<std::uint64_t> index = IndexIn(step);
  if (!index) return;
  steps_done_ = *index + 1;
  loss_ = NumberIn(step, "loss");
  if (*index == 0) first_loss_ = loss_;
  const auto action = step.find("action");
  if (action != step.end() && *action == "skip") ++skipped_;
  recent_.push_back({AmountIn(step, "samples", kSamplesMax), AmountIn(step, "seconds", kSecondsMax)});
  recent_samples_ += recent_.back().samples;
  recent_seconds_ += recent_.back().seconds;
  while (recent_.size() > 1 && recent_seconds_ - recent_.front().seconds >= kRateSeconds) {
    recent_samples_ -= recent_.front().samples;
    recent_seconds_ -= recent_.front().seconds;
    recent_.pop_front();
  }
  if (const std::optional<double> validation = NumberIn(step, "validation_loss")) {
    std::string text =
        "validation at step " + std::to_string(steps_done_ - 1) + ": loss " + Format("%.4f", *validation);
    if (const auto accuracy = NumberIn(step, "validation_accuracy"))
      text += ", " + Format("%.1f", *accuracy * 100) + " % right";
    lines_to_keep->push_back(std::move(text));
  }
}

std::string Progress::Divergence() const {
  if (steps_done_ == 0) return "";
  const std::string change = "; lower optimizer.lr, or set optimizer.clip_norm";
  const std::string first = first_loss_ ? Format("%.4g", *first_loss_) : "a number";
  if (!loss_) return "the loss went from " + first + " to one that is not finite: these weights are of no use" + change;
  if (!first_loss_ || *first_loss_ <= 0 || *loss_ <= kDivergedFactor * *first_loss_) return "";
  return "the loss rose from " + first + " to " + Format("%.6g", *loss_) +
         ": training diverged, and these weights are " + "of little use" + change;
}

std::string Progress::Line() const {
  if (steps_done_ == 0) return "";
  const bool is_open = steps_ == kOpenEndedSteps;
  std::string line = "step " + std::to_string(steps_done_) + (is_open ? "" : "/" + std::to_string(steps_));
  line += "  loss " + (loss_ ? Format("%.4f", *loss_) : std::string("not finite"));
  if (recent_seconds_ <= 0) return line;
  const double rate = std::max(recent_samples_, 0.0) / recent_seconds_;  // rounding may make it negative
  line += "  " + Format(rate < 100 ? "%.1f" : "%.0f", rate) + " samples/s";
  if (is_open) return line;
  const double per_step = recent_seconds_ / static_cast<double>(recent_.size());
  const std::uint64_t left = steps_ > steps_done_ ? steps_ - steps_done_ : 0;
  return line + "  " + Duration(static_cast<double>(left) * per_step) + " left";
}

}  // namespace capstan::cli
