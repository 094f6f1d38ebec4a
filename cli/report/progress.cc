#include "cli/report/progress.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>

#include "common/base/rotated_file.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::json;

constexpr int kDaysShownMax = 1000;
constexpr double kSamplesMax = 1e12, kSecondsMax = 1e9;  // per step

std::optional<double> NumberIn(const Json& step, const char* key) {
  const auto found = step.find(key);
  return found != step.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// Returns the number at `key` in a step's record; 0 if it is missing, negative or above `max`.
double AmountIn(const Json& step, const char* key, double max) {
  const double amount = NumberIn(step, key).value_or(0);
  return amount >= 0 && amount <= max ? amount : 0;
}

// Returns the step's index, counted from 0; nothing if it has none.
std::optional<std::uint64_t> IndexIn(const Json& step) {
  const auto found = step.find("step");
  if (found == step.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto index = found->get<std::uint64_t>();
  return index < std::numeric_limits<std::uint64_t>::max() ? std::optional(index) : std::nullopt;
}

// Returns the file's inode; 0 if there is no such file.
std::uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
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

// Reads what was appended since the last call, even if the file was rotated meanwhile: a large file is renamed, and a
// new one begins.
std::vector<std::string> Progress::Update() {
  std::vector<std::string> keep;
  const std::uint64_t inode = InodeOf(path_);
  std::ifstream newest(path_, std::ios::binary);
  if (inode == 0 || InodeOf(path_) != inode) return keep;  // rotated at this moment: the next call continues
  if (inode != inode_) {
    for (const std::string& former : FormersToRead()) {
      std::ifstream in(former, std::ios::binary);
      ReadOn(&in, &keep);
      offset_ = 0;
    }
    inode_ = inode;
  }
  ReadOn(&newest, &keep);
  return keep;
}

// Returns the rotated files that are not read to their end, oldest first: the file that the last call read, and those
// after it. All, if there was no call before; none, if the file of the last call is gone.
std::vector<std::string> Progress::FormersToRead() {
  std::vector<std::string> formers = FormerFiles(path_);
  const auto last = std::find_if(formers.begin(), formers.end(),
                                 [this](const std::string& former) { return InodeOf(former) == inode_; });
  if (last != formers.end()) {
    formers.erase(formers.begin(), last);
  } else {
    offset_ = 0;  // the file read last is gone, or there was none
    if (inode_ != 0) formers.clear();
  }
  return formers;
}

void Progress::ReadOn(std::istream* in, std::vector<std::string>* keep) {
  if (!in->seekg(static_cast<std::streamoff>(offset_))) return;
  std::array<char, 1 << 16> bytes{};
  while (in->read(bytes.data(), bytes.size()), in->gcount() > 0) {
    offset_ += static_cast<std::uint64_t>(in->gcount());
    partial_.append(bytes.data(), static_cast<std::size_t>(in->gcount()));
    std::size_t begin = 0;
    for (std::size_t end; (end = partial_.find('\n', begin)) != partial_.npos; begin = end + 1) {
      AddLine(std::string_view(partial_).substr(begin, end - begin), keep);
    }
    partial_.erase(0, begin);
  }
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
  std::string line = "step " + std::to_string(steps_done_) + "/" + std::to_string(steps_);
  line += "  loss " + (loss_ ? Format("%.4f", *loss_) : std::string("not finite"));
  if (recent_seconds_ <= 0) return line;
  const double rate = std::max(recent_samples_, 0.0) / recent_seconds_;  // rounding may make it negative
  line += "  " + Format(rate < 100 ? "%.1f" : "%.0f", rate) + " samples/s";
  const double per_step = recent_seconds_ / static_cast<double>(recent_.size());
  const std::uint64_t left = steps_ > steps_done_ ? steps_ - steps_done_ : 0;
  return line + "  " + Duration(static_cast<double>(left) * per_step) + " left";
}

}  // namespace capstan::cli
