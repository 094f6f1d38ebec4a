// Reads and writes stored JSON: integers as numbers, floats as their bits.
//
// Kind:   functions; for the codecs of this folder only.
// Limits: a list is read up to a given number of elements; texts have no limit here.
// Fails:  readers return false for a value that is missing, of another type, or out of bounds. Only TextOf throws, for
//         a text that is not UTF-8.
// Why:    stored numbers come back bit by bit, NaNs too, and foreign data cannot end the process. The library's
//         templates are compiled once, in storage_json.cc.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::server {

using Json = nlohmann::ordered_json;

// ---- writing -------------------------------------------------------------------------------------------------------

std::uint32_t FloatBits(float value);
std::uint64_t DoubleBits(double value);

// Builds an object, with its members in the order in which they are set.
class JsonObject {
 public:
  JsonObject& Number(const char* key, std::uint64_t number);
  JsonObject& Flag(const char* key, bool flag);
  JsonObject& Text(const char* key, std::string text);
  JsonObject& Value(const char* key, Json value);
  Json Take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

class JsonList {
 public:
  JsonList& Number(std::uint64_t number);
  JsonList& Signed(std::int64_t number);
  JsonList& Flag(bool flag);
  JsonList& Text(std::string text);
  JsonList& Value(Json value);
  Json Take() { return std::move(json_); }

 private:
  Json json_ = Json::array();
};

Json ToJson(JobId job);
Json ToJson(SnapshotId id);
Json ToJson(const std::vector<std::uint64_t>& numbers);
Json ToJson(const std::vector<SequenceNumber>& numbers);
// The program's state and the fields of mode allreduce come last. Each is left out if it has its default value.
Json ToJson(const StepParameters& p);
// The metrics come last, and are left out if there are none.
Json ToJson(const StepReport& entry);

std::string TextOf(const Json& json);

// ---- reading -------------------------------------------------------------------------------------------------------

// Parses a text. If it is not JSON, the result is a value of no type, which every reader refuses.
Json ParseJson(std::string_view text);

// Return a member, or an element; null if there is none.
const Json* Member(const Json& object, const char* key);
const Json* Element(const Json& array, std::size_t index);
// The number of elements of a list; 0 for any other value.
std::size_t ElementCount(const Json& array);

bool ReadUnsigned(const Json* json, std::uint64_t* out, std::uint64_t max);
bool ReadSigned(const Json* json, std::int64_t* out);
bool ReadBool(const Json* json, bool* out);
bool ReadText(const Json* json, std::string* out);
bool ReadFloat(const Json* json, float* out);
bool ReadDouble(const Json* json, double* out);

template <class T>
bool ReadNumber(const Json* json, T* out, std::uint64_t max = std::numeric_limits<T>::max()) {
  std::uint64_t number = 0;
  if (!ReadUnsigned(json, &number, max)) return false;
  *out = static_cast<T>(number);
  return true;
}
template <class Tag>
bool ReadNumber(const Json* json, Number<Tag>* out) {
  return ReadNumber(json, &out->value);
}
// Reads a number that a coordinator counts up. No coordinator counts as far as kCountMax, so it did not write a larger
// number, and adding to that could begin from 0 again.
inline constexpr std::uint64_t kCountMax = std::uint64_t{1} << 62;
template <class Tag>
bool ReadCount(const Json* json, Number<Tag>* out) {
  return ReadNumber(json, &out->value, kCountMax);
}

bool IsList(const Json* json, std::size_t count_max);
// Reads a list of at most `count_max` elements, each with `read(const Json*, T*)`.
template <class T, class Read>
bool ReadList(const Json* json, std::vector<T>* out, std::size_t count_max, Read read) {
  if (!IsList(json, count_max)) return false;
  out->resize(ElementCount(*json));
  for (std::size_t i = 0; i < out->size(); ++i) {
    if (!read(Element(*json, i), &(*out)[i])) return false;
  }
  return true;
}
template <class T>
bool ReadNumbers(const Json* json, std::vector<T>* out, std::size_t count_max) {
  return ReadList(json, out, count_max, [](const Json* from, T* number) { return ReadNumber(from, number); });
}
bool ReadJob(const Json* json, JobId* job);
bool ReadSnapshotId(const Json* json, SnapshotId* id);
bool ReadParameters(const Json* json, StepParameters* p);
bool ReadReport(const Json* json, StepReport* entry);

}  // namespace capstan::server
