// Reading the job file: ParseJobConfig, LoadJobConfig.
#include "common/config/job_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "common/base/file_text.h"
#include "common/base/process_address.h"
#include "common/config/job_config_check.h"
#include "common/config/job_config_keys.h"
#include "common/config/suggestion.h"
#include "common/config/toml_document.h"

namespace capstan {

std::uint32_t DefaultSlots(std::uint64_t global_batch) {
  constexpr std::uint64_t kSlots = 4;
  return static_cast<std::uint32_t>(std::min(kSlots, global_batch));
}

namespace {

using job_config::Bound;
using job_config::IntegerRange;
using job_config::Key;
using job_config::Need;
using job_config::NumberRange;
using job_config::When;
using job_config::Words;

std::string Quote(std::string_view text) { return "\"" + std::string(text) + "\""; }

template <class Words>
std::string ListOf(const Words& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + Quote(word.text);
  return list;
}

std::string ShortNumber(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

std::string Allowed(IntegerRange range) {
  const bool open = range.max == IntegerRange().max;
  return "a whole number " + (open ? "of at least " + std::to_string(range.min)
                                   : "from " + std::to_string(range.min) + " to " + std::to_string(range.max));
}

std::string Allowed(NumberRange range) {
  const std::string min = (range.min_bound == Bound::kExcluded ? "above " : "of at least ") + ShortNumber(range.min);
  if (range.max == NumberRange().max) return "a number " + min;
  return "a number " + min + " and " + (range.max_bound == Bound::kExcluded ? "below " : "at most ") +
         ShortNumber(range.max);
}

bool Contains(NumberRange range, double number) {
  if (!std::isfinite(number)) return false;
  const bool above = range.min_bound == Bound::kExcluded ? number > range.min : number >= range.min;
  return above && (range.max_bound == Bound::kExcluded ? number < range.max : number <= range.max);
}

std::string Shown(const TomlValue& value) {
  if (!value.bare.empty()) return value.bare;
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value.data)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value.data)) return ShortNumber(*number);
  if (const auto* text = std::get_if<std::string>(&value.data)) return Quote(text->substr(0, 80));
  return std::holds_alternative<std::monostate>(value.data) ? "a table or a date" : "a list";
}

bool IsEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.find('/') != text.npos) return false;
  const std::string_view port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5) return false;
  unsigned number = 0;
  for (char c : port) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<unsigned>(c - '0');
  }
  return number <= 65535;
}

// Collects the names of all sections and keys that a job file can have.
class NameCollector {
 public:
  struct Name {
    std::string_view section, key;
  };
  const std::vector<Name>& names() const { return names_; }
  const std::vector<std::string_view>& sections() const { return sections_; }

  void Begin(std::string_view section, When = {}) { sections_.push_back(section); }
  void End() {}
  void Later(std::string_view) {}
  template <class T>
  void Default(T&, T) {}
  void Text(Key key, std::string&) { Add(key); }
  void Endpoint(Key key, std::string&) { Add(key); }
  void Process(Key key, std::string&) { Add(key); }
  void Flag(Key key, bool&) { Add(key); }
  void Number(Key key, double&, NumberRange) { Add(key); }
  void Pair(Key key, double&, double&, NumberRange) { Add(key); }
  template <class T>
  void Integer(Key key, T&, IntegerRange) {
    Add(key);
  }
  void Texts(Key key, std::vector<std::string>&) { Add(key); }
  void Integers(Key key, std::vector<std::uint32_t>&, IntegerRange) { Add(key); }
  template <class Value>
  void Choice(Key key, Value&, Words<Value>) {
    Add(key);
  }
  void Place(Key key, Device&, Words<DeviceKind>) { Add(key); }

 private:
  void Add(Key key) { names_.push_back({sections_.back(), key.name}); }

  std::vector<Name> names_;
  std::vector<std::string_view> sections_;
};

NameCollector AllNames() {
  NameCollector collector;
  EditableJobConfig config;
  job_config::VisitJobConfig(collector, config);
  return collector;
}

// Kinds of problem. Of several problems only the first in this order is reported, because it may cause the others: a
// misspelt kind makes its keys look foreign, and a misspelt key makes the right one look missing.
enum class Trouble { kBadWord, kUnknownName, kBadValue, kMissing, kForeign };

struct Complaint {
  Trouble trouble;
  Status status;
};

class KeyReader {
 public:
  explicit KeyReader(const TomlDocument& document) : document_(document), all_(AllNames()) { CheckSections(); }

  Status status() const {
    const auto worst = std::min_element(complaints_.begin(), complaints_.end(),
                                        [](const auto& a, const auto& b) { return a.trouble < b.trouble; });
    return worst == complaints_.end() ? Status() : worst->status;
  }

  void Begin(std::string_view section, When when = {}) {
    section_ = section;
    applies_ = when.applies;
    known_.clear();
    later_.clear();
    const TomlSection* found = document_.FindSection(section_);
    if (applies_ || found == nullptr) return;
    Complain(Trouble::kForeign, found->place, "[" + section_ + "] goes with " + std::string(when.condition) + " only");
  }

  void End() {
    const TomlSection* section = document_.FindSection(section_);
    if (section == nullptr) return;
    for (const TomlEntry& entry : section->entries) {
      if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
      const bool is_later = std::find(later_.begin(), later_.end(), entry.key) != later_.end();
      is_later ? ComplainLater(entry.place, Quote(entry.key) + " in [" + section_ + "]") : ComplainUnknown(entry);
    }
  }

  void Later(std::string_view key) { later_.push_back(key); }
  template <class T>
  void Default(T& field, T value) {
    field = value;
  }

  void Text(Key key, std::string& field) {
    if (const TomlValue* value = Find(key)) ReadText(key, *value, &field);
  }

  void Endpoint(Key key, std::string& field) {
    const TomlValue* value = Find(key);
    if (value == nullptr || !ReadText(key, *value, &field) || IsEndpoint(field)) return;
    ComplainValue(key, *value, "\"host:port\" with a port from 0 (any free one) to 65535");
  }

  // Reads the address of a process: that of an endpoint, a Unix socket, or "auto".
  void Process(Key key, std::string& field) {
    const TomlValue* value = Find(key);
    if (value == nullptr || !ReadText(key, *value, &field) || field == kAutoAddress) return;
    field = AddressOf(field);
    if (IsLocalAddress(field) ? IsProcessAddress(field) : IsEndpoint(WithoutKey(field)) && HasKeyOrNone(field)) return;
    ComplainValue(
        key, *value,
        "\"auto\", \"host:port\" with a port from 0 (any free one) to 65535, or \"ipc:///PATH\" with a path of at "
        "most " +
            std::to_string(kSocketPathBytesMax) + " bytes");
  }

  void Flag(Key key, bool& field) {
    const TomlValue* value = Find(key);
    if (value == nullptr) return;
    const bool* flag = std::get_if<bool>(&value->data);
    flag != nullptr ? field = *flag : (ComplainValue(key, *value, "true or false"), false);
  }

  void Number(Key key, double& field, NumberRange range) {
    if (const TomlValue* value = Find(key)) ReadNumber(key, *value, Allowed(range), range, &field);
  }

  void Pair(Key key, double& first, double& second, NumberRange range) {
    const TomlValue* value = Find(key);
    if (value == nullptr) return;
    const std::string allowed = "two numbers in brackets, each " + Allowed(range);
    const auto* items = std::get_if<std::vector<TomlValue>>(&value->data);
    if (items == nullptr || items->size() != 2) return ComplainValue(key, *value, allowed);
    ReadNumber(key, (*items)[0], allowed, range, &first);
    ReadNumber(key, (*items)[1], allowed, range, &second);
  }

  template <class T>
  void Integer(Key key, T& field, IntegerRange range) {
    if (const TomlValue* value = Find(key)) ReadInteger(key, *value, Allowed(range), range, &field);
  }

  void Texts(Key key, std::vector<std::string>& field) {
    const TomlValue* value = Find(key);
    if (value == nullptr) return;
    const auto* items = std::get_if<std::vector<TomlValue>>(&value->data);
    if (items == nullptr) return ComplainValue(key, *value, "a list of texts: [\"*.h\", \"*.hpp\"]");
    field.assign(items->size(), "");
    for (std::size_t i = 0; i < items->size(); ++i) ReadText(key, (*items)[i], &field[i]);
  }

  void Integers(Key key, std::vector<std::uint32_t>& field, IntegerRange range) {
    const TomlValue* value = Find(key);
    if (value == nullptr) return;
    const std::string allowed = "a list, each " + Allowed(range);
    const auto* items = std::get_if<std::vector<TomlValue>>(&value->data);
    if (items == nullptr) return ComplainValue(key, *value, allowed);
    field.assign(items->size(), 0);
    for (std::size_t i = 0; i < items->size(); ++i) ReadInteger(key, (*items)[i], allowed, range, &field[i]);
  }

  template <class Value>
  void Choice(Key key, Value& field, Words<Value> words) {
    const TomlValue* value = Find(key);
    std::string text;
    if (value == nullptr || !ReadText(key, *value, &text)) return;
    std::vector<std::string_view> known;
    for (const auto& word : words.built) {
      if (word.text == text) return void(field = word.value);
      known.push_back(word.text);
    }
    const std::string what = Quote(text) + " for " + std::string(key.name) + " in [" + section_ + "]";
    if (std::find(words.later.begin(), words.later.end(), text) != words.later.end()) {
      return ComplainLater(value->place, what + "; this build has " + ListOf(words.built), Trouble::kBadWord);
    }
    Complain(Trouble::kBadWord, value->place,
             "unknown word " + what + ": one of " + ListOf(words.built) + DidYouMean(text, known));
  }

  // Reads a device, such as "cuda" or "cuda:1": its kind and, for cuda, the number of the machine's device.
  void Place(Key key, Device& field, Words<DeviceKind> words) {
    const TomlValue* value = Find(key);
    std::string text;
    if (value == nullptr || !ReadText(key, *value, &text)) return;
    const std::string_view all = text;
    const std::size_t colon = all.find(':');
    std::vector<std::string_view> known;
    for (const auto& word : words.built) {
      known.push_back(word.text);
      if (word.text != all.substr(0, colon)) continue;
      field = {word.value, {}};
      if (colon == std::string_view::npos) return;
      std::uint32_t index = 0;
      const char* const end = all.data() + all.size();
      const auto read = std::from_chars(all.data() + colon + 1, end, index);
      if (word.value == DeviceKind::kCuda && read.ec == std::errc() && read.ptr == end)
        return void(field.index = index);
    }
    Complain(Trouble::kBadWord, value->place,
             "unknown word " + Quote(text) + " for device in [worker]: one of " + ListOf(words.built) +
                 ", or \"cuda:1\" for the GPU of that number" + DidYouMean(text, known));
  }

 private:
  void Complain(Trouble trouble, const TomlPlace& place, const std::string& text) {
    complaints_.push_back({trouble, Invalid(document_.Message(place, text))});
  }

  void ComplainLater(const TomlPlace& place, const std::string& what, Trouble trouble = Trouble::kUnknownName) {
    complaints_.push_back({trouble, Unsupported(document_.Message(place, "not built yet: " + what))});
  }

  void ComplainValue(Key key, const TomlValue& value, const std::string& allowed) {
    Complain(Trouble::kBadValue, value.place,
             section_ + "." + std::string(key.name) + " is " + Shown(value) + "; wanted " + allowed);
  }

  void ComplainUnknown(const TomlEntry& entry) {
    std::string hint = DidYouMean(entry.key, known_);
    for (const auto& name : all_.names()) {
      if (hint.empty() && name.key == entry.key) hint = "; it belongs in [" + std::string(name.section) + "]";
    }
    if (hint.empty()) {
      for (std::string_view key : known_) hint += (hint.empty() ? "; keys: " : ", ") + std::string(key);
    }
    Complain(Trouble::kUnknownName, entry.place, "unknown key " + Quote(entry.key) + " in [" + section_ + "]" + hint);
  }

  void CheckSections() {
    for (const TomlEntry& entry : document_.loose()) {
      section_ = "no section";
      ComplainUnknown(entry);
    }
    for (const TomlSection& section : document_.sections()) {
      const auto& sections = all_.sections();
      if (std::find(sections.begin(), sections.end(), section.name) != sections.end()) continue;
      std::string hint = DidYouMean(section.name, sections);
      if (hint.empty()) {
        for (std::string_view known : sections) hint += (hint.empty() ? "; sections: " : ", ") + std::string(known);
      }
      Complain(Trouble::kUnknownName, section.place, "unknown section [" + section.name + "]" + hint);
    }
  }

  // Notes that the section has this key. Returns the key's value, or null if the file lacks the key or the key does not
  // apply to the job's kinds.
  const TomlValue* Find(Key key) {
    known_.push_back(key.name);
    if (!applies_) return nullptr;
    const TomlEntry* entry = document_.Find(section_, key.name);
    if (entry != nullptr && !key.when.applies) {
      Complain(Trouble::kForeign, entry->place,
               Quote(key.name) + " in [" + section_ + "] goes with " + std::string(key.when.condition) +
                   " only; leave it out");
      return nullptr;
    }
    if (entry == nullptr && key.when.applies && key.need == Need::kRequired) {
      const TomlSection* section = document_.FindSection(section_);
      Complain(Trouble::kMissing, section == nullptr ? TomlPlace() : section->place,
               Quote(key.name) + " is missing in [" + section_ + "]");
    }
    return entry == nullptr ? nullptr : &entry->value;
  }

  bool ReadText(Key key, const TomlValue& value, std::string* field) {
    if (const auto* text = std::get_if<std::string>(&value.data)) return *field = *text, true;
    if (!value.bare.empty()) return *field = value.bare, true;  // --set job.name=5
    ComplainValue(key, value, "a text in quotes");
    return false;
  }

  template <class T>
  void ReadInteger(Key key, const TomlValue& value, const std::string& allowed, IntegerRange range, T* field) {
    const auto* integer = std::get_if<std::int64_t>(&value.data);
    if (integer == nullptr || *integer < range.min || *integer > range.max) return ComplainValue(key, value, allowed);
    *field = static_cast<T>(*integer);
  }

  void ReadNumber(Key key, const TomlValue& value, const std::string& allowed, NumberRange range, double* field) {
    const auto* integer = std::get_if<std::int64_t>(&value.data);
    const auto* number = std::get_if<double>(&value.data);
    const bool is_number = integer != nullptr || number != nullptr;
    const double read = integer != nullptr ? static_cast<double>(*integer) : number != nullptr ? *number : 0.0;
    if (!is_number || !Contains(range, read)) return ComplainValue(key, value, allowed);
    *field = read;
  }

  const TomlDocument& document_;
  const NameCollector all_;
  std::vector<Complaint> complaints_;
  std::string section_;
  bool applies_ = true;                          // whether the section being read applies
  std::vector<std::string_view> known_, later_;  // keys of the section being read
};

// Returns the place of a key's value. If the key is absent, returns that of its section; without a section, no place.
TomlPlace PlaceOf(const TomlDocument& document, std::string_view section_name, std::string_view key) {
  if (const TomlEntry* entry = document.Find(section_name, key)) return entry->value.place;
  const TomlSection* section = document.FindSection(section_name);
  return section == nullptr ? TomlPlace() : section->place;
}

}  // namespace

Result<JobConfig> ParseJobConfig(std::string_view text, std::string_view file_name,
                                 const std::vector<std::string>& overrides) {
  CAPSTAN_ASSIGN_OR_RETURN(const TomlDocument document, TomlDocument::Parse(text, file_name, overrides));
  EditableJobConfig config;
  KeyReader reader(document);
  job_config::VisitJobConfig(reader, config);
  CAPSTAN_RETURN_IF_ERROR(reader.status());
  if (config.job.slots == 0) config.job.slots = DefaultSlots(config.job.global_batch);
  if (config.cluster.min_workers == 0) config.cluster.min_workers = config.cluster.workers;
  if (const auto problem = job_config::FindProblem(config)) {
    return Invalid(document.Message(PlaceOf(document, problem->section, problem->key), problem->message));
  }
  // Workers receive the printed file, which also has the keys that the original leaves out.
  if (const std::size_t bytes = PrintJobConfig(config).size(); bytes > kTomlBytesMax) {
    return Invalid(std::string(file_name) + ": the whole job file has " + std::to_string(bytes) + " bytes, at most " +
                   std::to_string(kTomlBytesMax) + " are allowed; shorten its longest text");
  }
  return config;
}

Result<JobConfig> LoadJobConfig(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = ReadFileText(path, kTomlBytesMax + 1);
  if (text.ok()) return ParseJobConfig(*text, path, overrides);
  return Status(text.status().code(), path + ": cannot read the job file: " + text.status().message() +
                                          "; give the path of a TOML file, for example examples/mlp-synthetic.toml");
}

std::vector<std::string> JobFileKeys() {
  std::vector<std::string> keys;
  const NameCollector all = AllNames();
  for (const NameCollector::Name& name : all.names()) {
    keys.push_back(std::string(name.section) + "." + std::string(name.key));
  }
  return keys;
}

}  // namespace capstan
