// Printing and comparing job files: PrintJobConfig, HashJobConfig, DescribeDifference.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job_config.h"
#include "common/config/job_config_keys.h"

namespace capstan {

namespace {

using job_config::IntegerRange;
using job_config::Key;
using job_config::NumberRange;
using job_config::When;
using job_config::Words;

std::string Quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Returns the shortest text that reads back as the same double, with ".0" added where TOML would read an integer.
std::string Shortest(double number) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  std::string Take() { return std::move(text_); }

  void Begin(std::string_view section, When when = {}) {
    applies_ = when.applies;
    if (!applies_) return;
    if (!text_.empty()) text_ += "\n";
    text_ += "[" + std::string(section) + "]\n";
  }
  void End() {}
  void Later(std::string_view) {}
  template <class T>
  void Default(T&, T) {}

  void Text(Key key, std::string& field) { Line(key, Quoted(field)); }
  void Endpoint(Key key, std::string& field) { Line(key, Quoted(field)); }
  void Process(Key key, std::string& field) { Line(key, Quoted(field)); }
  void Flag(Key key, bool& field) { Line(key, field ? "true" : "false"); }
  void Number(Key key, double& field, NumberRange) { Line(key, Shortest(field)); }
  void Pair(Key key, double& first, double& second, NumberRange) {
    Line(key, "[" + Shortest(first) + ", " + Shortest(second) + "]");
  }
  template <class T>
  void Integer(Key key, T& field, IntegerRange) {
    Line(key, std::to_string(field));
  }
  void Texts(Key key, std::vector<std::string>& field) { Line(key, List(field, Quoted)); }
  void Integers(Key key, std::vector<std::uint32_t>& field, IntegerRange) {
    Line(key, List(field, [](std::uint32_t number) { return std::to_string(number); }));
  }
  template <class Value>
  void Choice(Key key, Value& field, Words<Value> words) {
    for (const auto& word : words.built) {
      if (word.value == field) Line(key, Quoted(word.text));
    }
  }
  void Place(Key key, Device& field, Words<DeviceKind> words) {
    for (const auto& word : words.built) {
      if (word.value != field.kind) continue;
      Line(key, Quoted(std::string(word.text) + (field.index ? ":" + std::to_string(*field.index) : "")));
    }
  }

 private:
  void Line(Key key, const std::string& value) {
    if (applies_ && key.when.applies) text_ += std::string(key.name) + " = " + value + "\n";
  }
  template <class Item, class Print>
  static std::string List(const std::vector<Item>& items, Print print) {
    std::string text = "[";
    for (const Item& item : items) text += (text.size() > 1 ? ", " : "") + print(item);
    return text + "]";
  }

  std::string text_;
  bool applies_ = true;  // whether the section being written applies
};

}  // namespace

std::string_view WordOf(OptimizerKind kind) {
  for (const auto& word : job_config::kOptimizers) {
    if (word.value == kind) return word.text;
  }
  return "";
}

std::string PrintJobConfig(const JobConfig& config) {
  Printer printer;
  EditableJobConfig copy = config;  // visitors take fields by reference
  job_config::VisitJobConfig(printer, copy);
  return printer.Take();
}

namespace {

// Gives fixed values to settings that the bits of the weights do not depend on, such as members, threads and limits.
EditableJobConfig TrainingPart(EditableJobConfig config) {
  config.cluster = {};
  config.worker.device.index.reset();
  config.worker.threads = WorkerSection().threads;
  config.worker.recompute = WorkerSection().recompute;
  config.worker.command.clear();
  config.snapshot = {};
  config.limits = {};
  if (!WorkersUpdate(config.job.mode)) config.allreduce = {};
  config.allreduce.local_reduce = LocalReduce::kNone;
  config.metrics = {};
  config.security = {};
  return config;
}

std::string_view TakeLine(std::string_view* text) {
  const std::size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

}  // namespace

std::uint64_t HashJobConfig(const JobConfig& config) {
  EditableJobConfig shared = TrainingPart(config);
  shared.cluster.servers = config.cluster.servers;
  shared.cluster.shards_per_server = config.cluster.shards_per_server;
  const std::string text = PrintJobConfig(shared);
  return Hash64(std::as_bytes(std::span(text)));
}

namespace {

// Resets the settings that may change when a run is resumed: neither the data on disk nor the samples of a step depend
// on them.
void ForgetFreeSettings(EditableJobConfig* config) {
  config->data.path = config->data.labels = "";
  if (WorkersUpdate(config->job.mode)) config->job.mode = Mode::kSync;
  config->allreduce = {};
  config->job.steps = 1;
  config->job.eval_every = 0;
  config->job.on_nonfinite = NonFinitePolicy::kStop;
  config->job.aggregation = Aggregation::kMean;
  config->optimizer.lr = 1;
  config->optimizer.clip_norm = 0;
  config->schedule = {};
}

// Explains why a key must not change when a run is resumed.
std::string_view ReasonOf(std::string_view section, std::string_view key) {
  struct Fixed {
    std::string_view section, key, reason;  // an empty key: all other keys of the section
  };
  static constexpr Fixed kFixed[] = {
      {"job", "name", "the run has this name"},
      {"job", "seed", "first weights, the samples of every step and all random numbers follow from it"},
      {"job", "global_batch", "the samples of every step follow from it"},
      {"job", "slots", "the samples of every slot and the order of all sums follow from it"},
      {"job", "mode", "what is on disk is of this mode"},
      {"job", "", "the pushes that are on disk were taken by it"},
      {"model", "", "the weights on disk are of this model"},
      {"data", "", "the samples of every step follow from it"},
      {"optimizer", "kind", "its state on disk is of this kind"},
      {"optimizer", "", "its state on disk was made with it"},
      {"worker", "", "the bits of every gradient follow from it"},
  };
  for (const Fixed& fixed : kFixed) {
    if (fixed.section == section && (fixed.key == key || fixed.key.empty())) return fixed.reason;
  }
  return "the weights follow from it";
}

std::string_view KeyOf(std::string_view line) { return line.substr(0, line.find(" = ")); }

// Lists the keys and values of [job], [optimizer] and [schedule].
std::vector<std::pair<std::string, std::string>> TrainingSettings(const JobConfig& config) {
  std::vector<std::pair<std::string, std::string>> settings;
  const std::string text = PrintJobConfig(config);
  std::string section;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = TakeLine(&rest);
    if (line.starts_with('[')) section = line.substr(1, line.size() - 2);
    const std::size_t equals = line.find(" = ");
    const bool wanted = section == "job" || section == "optimizer" || section == "schedule";
    if (!wanted || line.starts_with('[') || equals == line.npos) continue;
    settings.emplace_back(section + "." + std::string(KeyOf(line)), line.substr(equals + 3));
  }
  return settings;
}

}  // namespace

std::string DescribeDifference(const JobConfig& begun, const JobConfig& now) {
  const auto print = [](EditableJobConfig config) {
    ForgetFreeSettings(&config);
    return PrintJobConfig(TrainingPart(std::move(config)));
  };
  const std::string old_text = print(begun), new_text = print(now);
  std::string_view old_rest = old_text, new_rest = new_text;
  std::string section;
  while (!old_rest.empty() || !new_rest.empty()) {
    const std::string_view old_line = TakeLine(&old_rest), new_line = TakeLine(&new_rest);
    if (old_line != new_line) {
      const std::string_view key = KeyOf(old_line.empty() ? new_line : old_line);
      return "[" + section + "]: it was begun with " + std::string(old_line) + ", now " + std::string(new_line) + ": " +
             std::string(ReasonOf(section, key));
    }
    if (!old_line.empty() && old_line.front() == '[') section = old_line.substr(1, old_line.size() - 2);
  }
  return "";
}

std::vector<std::string> DescribeChanges(const JobConfig& begun, const JobConfig& now) {
  const auto before = TrainingSettings(begun);
  std::vector<std::string> changes;
  for (const auto& [key, value] : TrainingSettings(now)) {
    const auto old =
        std::find_if(before.begin(), before.end(), [&name = key](const auto& one) { return one.first == name; });
    if (old != before.end() && old->second == value) continue;
    changes.push_back(key + " = " + value + (old == before.end() ? " (new)" : " (it was " + old->second + ")"));
  }
  return changes;
}

}  // namespace capstan
