// TextIn, NumberIn, CountIn, ListIn: fields of a JSON object that a file or another process gave, of the kind that is
// expected.
//
// Kind:   pure functions. A field that is missing, or of another kind, is empty.
// Limits: a text is cut to kLongExcerptBytesMax, and is printable.
#pragma once

#include <nlohmann/json.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace capstan::cli {

std::string TextIn(const nlohmann::json& object, const char* key);
std::optional<double> NumberIn(const nlohmann::json& object, const char* key);
// Returns a whole number from 0.
std::optional<std::uint64_t> CountIn(const nlohmann::json& object, const char* key);
// Returns the list; an empty one if there is none.
const nlohmann::json& ListIn(const nlohmann::json& object, const char* key);

}  // namespace capstan::cli
