// TomlDocument: a TOML text of sections with keys, and the place of each value in the text.
//
// Kind:   values; immutable once made.
// Limits: kTomlBytesMax bytes of text; nesting as deep as the library allows; a bounded number of dots in a line.
// Fails:  kInvalid; what is wrong at a place in the text is reported in the form of Message().
// Why:    only toml_document.cc uses the TOML library, and every message about a value can show its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"

namespace capstan {

inline constexpr std::size_t kTomlBytesMax = std::size_t{1} << 20;

// A place in the file (line and column from 1, in characters), or in override `override_index`. Nowhere if `line` is 0
// and `override_index` is -1.
struct TomlPlace {
  std::uint32_t line = 0, column = 0, length = 1;
  int override_index = -1;
};

struct TomlValue {
  // monostate stands for a date, a time or a table; the job file uses none of them.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<TomlValue>> data;
  TomlPlace place;
  std::string bare;  // the unparsed text of an override's value
};

struct TomlEntry {
  std::string key;
  TomlPlace place;  // the key's place
  TomlValue value;
};

struct TomlSection {
  std::string name;
  TomlPlace place;
  std::vector<TomlEntry> entries;
};

class TomlDocument {
 public:
  // An override "section.key=value" replaces or adds that entry.
  static Result<TomlDocument> Parse(std::string_view text, std::string_view file_name,
                                    const std::vector<std::string>& overrides);

  const std::vector<TomlSection>& sections() const { return sections_; }
  const std::vector<TomlEntry>& loose() const { return loose_; }  // keys before the first section
  const TomlSection* FindSection(std::string_view name) const;
  const TomlEntry* Find(std::string_view section, std::string_view key) const;

  // Returns "job.toml:3:1: <text>", followed by the line, or a piece of a long line, with a caret under the place. For
  // an override it returns "--set <override>: <text>".
  std::string Message(const TomlPlace& place, std::string_view text) const;

 private:
  TomlDocument() = default;
  Status CheckDepth() const;
  Status ApplyOverride(int index);

  std::string file_name_;
  std::vector<std::string> lines_;
  std::vector<std::string> overrides_;
  std::vector<TomlSection> sections_;
  std::vector<TomlEntry> loose_;
};

}  // namespace capstan
