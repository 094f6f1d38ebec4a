// Reading and writing of what is stored as JSON: numbers as they are, floats as their bits.
//
// Kind:   functions; for the codecs of this folder alone.
// Limits: every reader states the most that it takes.
// Fails:  false: not there, of another type, or out of bounds. Nothing throws.
// Why:    what was stored comes back bit by bit, NaNs too, and what was not stored by us is no reason to end.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/messages.h"

namespace capstan::server {

using Json = nlohmann::ordered_json;

// ---- writing -------------------------------------------------------------------------------------------------------

inline std::uint32_t FloatBits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline std::uint64_t DoubleBits(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline Json ToJson(JobId job) { return Json::array({job.high, job.low}); }
inline Json ToJson(SnapshotId id) { return Json::array({id.generation.value, id.version.value}); }
// Bytes, two digits each: they need not be text.
inline std::string HexOf(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}
// The program's state, and what only mode allreduce has, come last, and only where there is any.
inline Json ToJson(const StepParameters& p) {
  Json json = {{"updates", p.updates},
               {"learning_rate_bits", FloatBits(p.learning_rate)},
               {"loss_scale_bits", FloatBits(p.loss_scale)},
               {"good_steps", p.good_steps},
               {"snapshot", p.snapshot},
               {"stop", p.stop}};
  if (!p.program_state.empty()) json["program_state"] = HexOf(p.program_state);
  if (p.keep) json["keep"] = true;
  if (!p.held) json["held"] = false;
  return json;
}
// The metrics come last, and only where there are any.
inline Json ToJson(const Progress::Entry& entry) {
  const SlotReport& report = entry.report;
  Json json =
      Json::array({entry.step.value, report.slot, report.samples, DoubleBits(report.loss_sum), report.predictions,
                   DoubleBits(report.validation_loss_sum), report.validation_predictions, report.validation_correct});
  if (report.metrics.empty()) return json;
  Json& metrics = json.emplace_back(Json::array());
  for (const Metric& metric : report.metrics) {
    metrics.push_back(Json::array({metric.name, DoubleBits(metric.sum), DoubleBits(metric.weight)}));
  }
  return json;
}

// ---- reading -------------------------------------------------------------------------------------------------------

// Discarded (and of no type) when the text is not JSON.
inline Json ParseJson(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

// Null when there is none.
inline const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}
inline const Json* Element(const Json& array, std::size_t index) {
  return array.is_array() && index < array.size() ? &array[index] : nullptr;
}

template <class T>
bool ReadNumber(const Json* json, T* out, std::uint64_t max = std::numeric_limits<T>::max()) {
  if (json == nullptr || !json->is_number_unsigned()) return false;
  const auto number = json->get<std::uint64_t>();
  *out = static_cast<T>(number);
  return number <= max;
}
template <class Tag>
bool ReadNumber(const Json* json, Number<Tag>* out) {
  return ReadNumber(json, &out->value);
}
inline bool ReadBool(const Json* json, bool* out) {
  if (json == nullptr || !json->is_boolean()) return false;
  *out = json->get<bool>();
  return true;
}
inline bool ReadText(const Json* json, std::string* out) {
  if (json == nullptr || !json->is_string()) return false;
  *out = json->get_ref<const std::string&>();
  return true;
}
inline bool ReadFloat(const Json* json, float* out) {
  std::uint32_t bits = 0;
  const bool good = ReadNumber(json, &bits);
  std::memcpy(out, &bits, sizeof bits);
  return good;
}
inline bool ReadDouble(const Json* json, double* out) {
  std::uint64_t bits = 0;
  const bool good = ReadNumber(json, &bits);
  std::memcpy(out, &bits, sizeof bits);
  return good;
}
// Each element by `read(const Json*, T*)`.
template <class T, class Read>
bool ReadList(const Json* json, std::vector<T>* out, std::size_t count_max, Read read) {
  if (json == nullptr || !json->is_array() || json->size() > count_max) return false;
  out->resize(json->size());
  for (std::size_t i = 0; i < out->size(); ++i) {
    if (!read(&(*json)[i], &(*out)[i])) return false;
  }
  return true;
}
inline bool ReadNumbers(const Json* json, std::vector<std::uint64_t>* out, std::size_t count_max) {
  return ReadList(json, out, count_max,
                  [](const Json* from, std::uint64_t* number) { return ReadNumber(from, number); });
}
inline bool ReadJob(const Json* json, JobId* job) {
  return json != nullptr && json->size() == 2 && ReadNumber(Element(*json, 0), &job->high) &&
         ReadNumber(Element(*json, 1), &job->low);
}
inline bool ReadSnapshotId(const Json* json, SnapshotId* id) {
  return json != nullptr && json->size() == 2 && ReadNumber(Element(*json, 0), &id->generation) &&
         ReadNumber(Element(*json, 1), &id->version);
}
// Not longer than `bytes_max`.
inline bool ReadHex(const Json* json, std::string* bytes, std::size_t bytes_max) {
  std::string hex;
  if (!ReadText(json, &hex) || hex.size() % 2 != 0 || hex.size() > 2 * bytes_max) return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high * 16 + low));
  }
  return true;
}
inline bool ReadParameters(const Json* json, StepParameters* p) {
  const Json* state = json != nullptr ? Member(*json, "program_state") : nullptr;
  if (state != nullptr && !ReadHex(state, &p->program_state, kProgramStateBytesMax)) return false;
  if (const Json* keep = json != nullptr ? Member(*json, "keep") : nullptr;
      keep != nullptr && !ReadBool(keep, &p->keep))
    return false;
  if (const Json* held = json != nullptr ? Member(*json, "held") : nullptr;
      held != nullptr && !ReadBool(held, &p->held))
    return false;
  return json != nullptr && ReadNumber(Member(*json, "updates"), &p->updates) &&
         ReadFloat(Member(*json, "learning_rate_bits"), &p->learning_rate) &&
         ReadFloat(Member(*json, "loss_scale_bits"), &p->loss_scale) &&
         ReadNumber(Member(*json, "good_steps"), &p->good_steps) && ReadBool(Member(*json, "snapshot"), &p->snapshot) &&
         ReadBool(Member(*json, "stop"), &p->stop);
}
inline bool ReadMetric(const Json* json, Metric* metric) {
  return json->size() == 3 && ReadText(Element(*json, 0), &metric->name) &&
         ReadDouble(Element(*json, 1), &metric->sum) && ReadDouble(Element(*json, 2), &metric->weight);
}
inline bool ReadReport(const Json* json, Progress::Entry* entry) {
  SlotReport& report = entry->report;
  if (json == nullptr) return false;
  if (json->size() == 9 && !ReadList(Element(*json, 8), &report.metrics, kMetricsMax, ReadMetric)) return false;
  return (json->size() == 8 || !report.metrics.empty()) && ReadNumber(Element(*json, 0), &entry->step) &&
         ReadNumber(Element(*json, 1), &report.slot) && ReadNumber(Element(*json, 2), &report.samples) &&
         ReadDouble(Element(*json, 3), &report.loss_sum) && ReadNumber(Element(*json, 4), &report.predictions) &&
         ReadDouble(Element(*json, 5), &report.validation_loss_sum) &&
         ReadNumber(Element(*json, 6), &report.validation_predictions) &&
         ReadNumber(Element(*json, 7), &report.validation_correct);
}

}  // namespace capstan::server
