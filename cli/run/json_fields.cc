#include "cli/run/json_fields.h"

#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::json;

const Json* FieldIn(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

Json ParseJson(std::string_view text) {
  bool is_deep = false;
  const auto keeps = [&](int depth, Json::parse_event_t, const Json&) {
    is_deep = is_deep || depth > kJsonDepthMax;
    return !is_deep;
  };
  Json parsed = Json::parse(text, keeps, false);
  return is_deep ? Json(Json::value_t::discarded) : parsed;
}

std::string TextIn(const Json& object, const char* key) {
  const Json* const field = FieldIn(object, key);
  return field != nullptr && field->is_string() ? Excerpt(field->get<std::string>(), kLongExcerptBytesMax) : "";
}

std::optional<double> NumberIn(const Json& object, const char* key) {
  const Json* const field = FieldIn(object, key);
  return field != nullptr && field->is_number() ? std::optional(field->get<double>()) : std::nullopt;
}

std::optional<std::uint64_t> CountIn(const Json& object, const char* key) {
  const Json* const field = FieldIn(object, key);
  if (field == nullptr || !field->is_number_integer()) return std::nullopt;
  if (!field->is_number_unsigned() && field->get<std::int64_t>() < 0) return std::nullopt;
  return field->get<std::uint64_t>();
}

const Json& ListIn(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json* const field = FieldIn(object, key);
  return field != nullptr && field->is_array() ? *field : kEmpty;
}

}  // namespace capstan::cli
