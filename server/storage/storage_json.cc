#include "server/storage/storage_json.h"

#include <capstan/metric.h>

#include <cstring>

#include "common/wire/messages/limits.h"

namespace capstan::server {

namespace {

// Writes bytes as hex digits, because they need not be text.
std::string HexOf(std::string_view bytes) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    hex += kHexDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kHexDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

// Returns false if the text is not hexadecimal, or stands for more than `bytes_max` bytes.
bool ReadHex(const Json* json, std::string* bytes, std::size_t bytes_max) {
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

bool ReadMetric(const Json* json, Metric* metric) {
  return ElementCount(*json) == 3 && ReadText(Element(*json, 0), &metric->name) &&
         ReadDouble(Element(*json, 1), &metric->sum) && ReadDouble(Element(*json, 2), &metric->weight);
}

}  // namespace

// ---- writing -------------------------------------------------------------------------------------------------------

std::uint32_t FloatBits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t DoubleBits(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

JsonObject& JsonObject::Number(const char* key, std::uint64_t number) { return json_[key] = number, *this; }
JsonObject& JsonObject::Flag(const char* key, bool flag) { return json_[key] = flag, *this; }
JsonObject& JsonObject::Text(const char* key, std::string text) { return json_[key] = std::move(text), *this; }
JsonObject& JsonObject::Value(const char* key, Json value) { return json_[key] = std::move(value), *this; }

JsonList& JsonList::Number(std::uint64_t number) { return json_.push_back(number), *this; }
JsonList& JsonList::Signed(std::int64_t number) { return json_.push_back(number), *this; }
JsonList& JsonList::Flag(bool flag) { return json_.push_back(flag), *this; }
JsonList& JsonList::Text(std::string text) { return json_.push_back(std::move(text)), *this; }
JsonList& JsonList::Value(Json value) { return json_.push_back(std::move(value)), *this; }

Json ToJson(JobId job) { return JsonList().Number(job.high).Number(job.low).Take(); }
Json ToJson(SnapshotId id) { return JsonList().Number(id.generation.value).Number(id.version.value).Take(); }

Json ToJson(const std::vector<std::uint64_t>& numbers) {
  JsonList list;
  for (const std::uint64_t number : numbers) list.Number(number);
  return list.Take();
}

Json ToJson(const std::vector<SequenceNumber>& numbers) {
  JsonList list;
  for (const SequenceNumber number : numbers) list.Number(number.value);
  return list.Take();
}

Json ToJson(const StepParameters& p) {
  JsonObject json;
  json.Number("updates", p.updates)
      .Number("learning_rate_bits", FloatBits(p.learning_rate))
      .Number("loss_scale_bits", FloatBits(p.loss_scale))
      .Number("good_steps", p.good_steps)
      .Flag("snapshot", p.snapshot)
      .Flag("stop", p.stop);
  if (!p.program_state.empty()) json.Text("program_state", HexOf(p.program_state));
  if (p.upload_next) json.Flag("keep", true);
  if (!p.on_shards) json.Flag("held", false);
  if (p.gradient_norm != 0) json.Number("gradient_norm_bits", DoubleBits(p.gradient_norm));
  return json.Take();
}

Json ToJson(const StepReport& entry) {
  const SlotReport& report = entry.report;
  JsonList json;
  json.Number(entry.sequence.value)
      .Number(report.slot)
      .Number(report.samples)
      .Number(DoubleBits(report.loss_sum))
      .Number(report.predictions)
      .Number(DoubleBits(report.validation_loss_sum))
      .Number(report.validation_predictions)
      .Number(report.validation_correct);
  if (report.metrics.empty()) return json.Take();
  JsonList metrics;
  for (const Metric& metric : report.metrics) {
    metrics.Value(JsonList().Text(metric.name).Number(DoubleBits(metric.sum)).Number(DoubleBits(metric.weight)).Take());
  }
  return json.Value(metrics.Take()).Take();
}

std::string TextOf(const Json& json) { return json.dump(); }

// ---- reading -------------------------------------------------------------------------------------------------------

Json ParseJson(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

const Json* Element(const Json& array, std::size_t index) {
  return array.is_array() && index < array.size() ? &array[index] : nullptr;
}

std::size_t ElementCount(const Json& array) { return array.is_array() ? array.size() : 0; }

bool ReadUnsigned(const Json* json, std::uint64_t* out, std::uint64_t max) {
  if (json == nullptr || !json->is_number_unsigned()) return false;
  *out = json->get<std::uint64_t>();
  return *out <= max;
}

bool ReadSigned(const Json* json, std::int64_t* out) {
  if (json == nullptr || !json->is_number_integer()) return false;
  if (json->is_number_unsigned() && json->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) return false;
  *out = json->get<std::int64_t>();
  return true;
}

bool ReadBool(const Json* json, bool* out) {
  if (json == nullptr || !json->is_boolean()) return false;
  *out = json->get<bool>();
  return true;
}

bool ReadText(const Json* json, std::string* out) {
  if (json == nullptr || !json->is_string()) return false;
  *out = json->get_ref<const std::string&>();
  return true;
}

bool ReadFloat(const Json* json, float* out) {
  std::uint32_t bits = 0;
  const bool good = ReadNumber(json, &bits);
  std::memcpy(out, &bits, sizeof bits);
  return good;
}

bool ReadDouble(const Json* json, double* out) {
  std::uint64_t bits = 0;
  const bool good = ReadNumber(json, &bits);
  std::memcpy(out, &bits, sizeof bits);
  return good;
}

bool IsList(const Json* json, std::size_t count_max) {
  return json != nullptr && json->is_array() && json->size() <= count_max;
}

bool ReadJob(const Json* json, JobId* job) {
  return json != nullptr && ElementCount(*json) == 2 && ReadNumber(Element(*json, 0), &job->high) &&
         ReadNumber(Element(*json, 1), &job->low);
}

bool ReadSnapshotId(const Json* json, SnapshotId* id) {
  return json != nullptr && ElementCount(*json) == 2 && ReadCount(Element(*json, 0), &id->generation) &&
         ReadCount(Element(*json, 1), &id->version);
}

bool ReadParameters(const Json* json, StepParameters* p) {
  const Json* state = json != nullptr ? Member(*json, "program_state") : nullptr;
  if (state != nullptr && !ReadHex(state, &p->program_state, kProgramStateBytesMax)) return false;
  if (const Json* upload = json != nullptr ? Member(*json, "keep") : nullptr;
      upload != nullptr && !ReadBool(upload, &p->upload_next))
    return false;
  if (const Json* on_shards = json != nullptr ? Member(*json, "held") : nullptr;
      on_shards != nullptr && !ReadBool(on_shards, &p->on_shards))
    return false;
  if (const Json* norm = json != nullptr ? Member(*json, "gradient_norm_bits") : nullptr;
      norm != nullptr && !ReadDouble(norm, &p->gradient_norm))
    return false;
  return json != nullptr && ReadNumber(Member(*json, "updates"), &p->updates, kCountMax) &&
         ReadFloat(Member(*json, "learning_rate_bits"), &p->learning_rate) &&
         ReadFloat(Member(*json, "loss_scale_bits"), &p->loss_scale) &&
         ReadNumber(Member(*json, "good_steps"), &p->good_steps) && ReadBool(Member(*json, "snapshot"), &p->snapshot) &&
         ReadBool(Member(*json, "stop"), &p->stop);
}

bool ReadReport(const Json* json, StepReport* entry) {
  SlotReport& report = entry->report;
  if (json == nullptr) return false;
  if (ElementCount(*json) == 9 && !ReadList(Element(*json, 8), &report.metrics, kMetricsMax, ReadMetric)) return false;
  return (ElementCount(*json) == 8 || !report.metrics.empty()) && ReadNumber(Element(*json, 0), &entry->sequence) &&
         ReadNumber(Element(*json, 1), &report.slot) && ReadNumber(Element(*json, 2), &report.samples) &&
         ReadDouble(Element(*json, 3), &report.loss_sum) && ReadNumber(Element(*json, 4), &report.predictions) &&
         ReadDouble(Element(*json, 5), &report.validation_loss_sum) &&
         ReadNumber(Element(*json, 6), &report.validation_predictions) &&
         ReadNumber(Element(*json, 7), &report.validation_correct);
}

}  // namespace capstan::server
