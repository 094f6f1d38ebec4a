#include "common/toml_document.h"

#include <algorithm>
#include <utility>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

namespace capstan {

namespace {

TomlPlace PlaceOf(const toml::source_region& region) {
  TomlPlace place{region.begin.line, region.begin.column};
  const bool one_line = region.end.line == region.begin.line && region.end.column > region.begin.column;
  if (one_line) place.length = region.end.column - region.begin.column;
  return place;
}

TomlValue Convert(const toml::node& node) {
  TomlValue value;
  value.place = PlaceOf(node.source());
  if (const auto* boolean = node.as_boolean()) value.data = boolean->get();
  if (const auto* integer = node.as_integer()) value.data = integer->get();
  if (const auto* number = node.as_floating_point()) value.data = number->get();
  if (const auto* text = node.as_string()) value.data = text->get();
  if (const auto* array = node.as_array()) {
    std::vector<TomlValue> items;
    for (const toml::node& item : *array) items.push_back(Convert(item));
    value.data = std::move(items);
  }
  return value;
}

// toml++ keeps tables sorted by key; people expect complaints in the order of the file.
void SortByPlace(std::vector<TomlEntry>* entries) {
  std::stable_sort(entries->begin(), entries->end(), [](const TomlEntry& a, const TomlEntry& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
}

std::vector<TomlEntry> ConvertEntries(const toml::table& table) {
  std::vector<TomlEntry> entries;
  for (auto&& [key, node] : table) {
    entries.push_back({std::string(key.str()), PlaceOf(key.source()), Convert(node)});
  }
  SortByPlace(&entries);
  return entries;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The value of an override: TOML if it is TOML, else the text itself.
TomlValue ParseBare(std::string_view text) {
  TomlValue value;
  value.data = std::string(text);
  const bool one_line = text.find_first_of("\n\r") == std::string_view::npos;
  const toml::parse_result parsed = toml::parse(one_line ? "value = " + std::string(text) : std::string());
  if (parsed && parsed.table().size() == 1) {
    TomlValue converted = Convert(*parsed.table().get("value"));
    if (!std::holds_alternative<std::monostate>(converted.data)) value = std::move(converted);
  }
  value.bare = text;
  return value;
}

void SetPlace(const TomlPlace& place, TomlValue* value) {
  value->place = place;
  auto* items = std::get_if<std::vector<TomlValue>>(&value->data);
  if (items == nullptr) return;
  for (TomlValue& item : *items) SetPlace(place, &item);
}

// Bytes of a line up to character `column` (from 1).
std::size_t BytesBefore(std::string_view line, std::uint32_t column) {
  std::size_t bytes = 0;
  for (std::uint32_t i = 1; i < column && bytes < line.size(); ++i) {
    ++bytes;
    while (bytes < line.size() && (static_cast<unsigned char>(line[bytes]) & 0xC0U) == 0x80U) ++bytes;
  }
  return bytes;
}

// White space as wide as `text` on a terminal, nearly always.
std::string BlankCopy(std::string_view text) {
  std::string blank;
  for (char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) blank += c == '\t' ? '\t' : ' ';
  }
  return blank;
}

}  // namespace

Result<TomlDocument> TomlDocument::Parse(std::string_view text, std::string_view file_name,
                                         const std::vector<std::string>& overrides) {
  TomlDocument document;
  document.file_name_ = file_name;
  if (text.size() > kTomlBytesMax) {
    return Invalid(document.file_name_ + ": " + std::to_string(text.size()) + " bytes; a job file has at most " +
                   std::to_string(kTomlBytesMax) + ". Is it the right file?");
  }
  document.lines_ = SplitLines(text);
  document.overrides_ = overrides;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    TomlPlace place = PlaceOf(parsed.error().source());
    return Invalid(document.Message(place, parsed.error().description()));
  }
  for (auto&& [key, node] : parsed.table()) {
    if (const toml::table* table = node.as_table()) {
      document.sections_.push_back({std::string(key.str()), PlaceOf(key.source()), ConvertEntries(*table)});
    } else {
      document.loose_.push_back({std::string(key.str()), PlaceOf(key.source()), Convert(node)});
    }
  }
  SortByPlace(&document.loose_);
  for (int i = 0; i < static_cast<int>(overrides.size()); ++i) CAPSTAN_RETURN_IF_ERROR(document.ApplyOverride(i));
  return document;
}

Status TomlDocument::ApplyOverride(int index) {
  const std::string_view text = overrides_[static_cast<std::size_t>(index)];
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.substr(0, equals).find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 || dot + 1 == equals) {
    return Invalid("--set " + std::string(text) + ": wanted section.key=value, for example --set job.steps=500");
  }
  const std::string_view section_name = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1);
  const TomlPlace place{.override_index = index};
  TomlValue value = ParseBare(text.substr(equals + 1));
  SetPlace(place, &value);
  auto section =
      std::find_if(sections_.begin(), sections_.end(), [&](const auto& s) { return s.name == section_name; });
  if (section == sections_.end()) {
    section = sections_.insert(section, {std::string(section_name), place, {}});
  }
  std::erase_if(section->entries, [&](const TomlEntry& entry) { return entry.key == key; });
  section->entries.push_back({std::string(key), place, std::move(value)});
  return {};
}

const TomlSection* TomlDocument::FindSection(std::string_view name) const {
  for (const TomlSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const TomlEntry* TomlDocument::Find(std::string_view section_name, std::string_view key) const {
  const TomlSection* section = FindSection(section_name);
  if (section == nullptr) return nullptr;
  for (const TomlEntry& entry : section->entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string TomlDocument::Message(const TomlPlace& place, std::string_view text) const {
  if (place.override_index >= 0) {
    return "--set " + overrides_[static_cast<std::size_t>(place.override_index)] + ": " + std::string(text);
  }
  if (place.line == 0) return file_name_ + ": " + std::string(text);
  std::string number = std::to_string(place.line);
  std::string message = file_name_ + ":" + number + ":" + std::to_string(place.column) + ": " + std::string(text);
  if (place.line > lines_.size()) return message;
  const std::string& line = lines_[place.line - 1];
  const std::string_view before = std::string_view(line).substr(0, BytesBefore(line, place.column));
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, ' ');
  message += "\n" + number + " | " + line + "\n" + std::string(number.size(), ' ') + " | ";
  return message + BlankCopy(before) + std::string(std::clamp(place.length, 1U, 80U), '^');
}

}  // namespace capstan
