// ParseJson, TextIn, NumberIn, CountIn, ListIn: read JSON that a file or another process gave, and the fields of an
// object, of the kind that is expected.
//
// Kind:   pure functions. A field that is missing, or of another kind, is empty.
// Limits: kJsonDepthMax lists and objects within each other. A text is cut to kLongExcerptBytesMax, and is printable.
#pragma once

#include <nlohmann/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::cli {

// Deeper JSON would need a stack that is too deep wherever it is copied or printed.
inline constexpr int kJsonDepthMax = 64;

// Returns a discarded value if the text is no JSON, or is too deep.
nlohmann::json ParseJson(std::string_view text);

std::string TextIn(const nlohmann::json& object, const char* key);
std::optional<double> NumberIn(const nlohmann::json& object, const char* key);
// Returns a whole number from 0.
std::optional<std::uint64_t> CountIn(const nlohmann::json& object, const char* key);
// Returns the list; an empty one if there is none.
const nlohmann::json& ListIn(const nlohmann::json& object, const char* key);

}  // namespace capstan::cli
