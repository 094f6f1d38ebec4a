#include "server/storage/push_record_codec.h"

#include <cstring>
#include <exception>

#include "common/base/hash.h"
#include "common/data/catalog.h"
#include "common/wire/messages/limits.h"
#include "server/storage/owned_slice.h"
#include "server/storage/sealed_text.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

using server::ToJson;

constexpr std::uint64_t kPushFormat = 1;

// A group has 7 values; those that were added later follow.
constexpr std::size_t kFirstValues = 7, kValues = 14;

Json ToJson(const HyperParameters& group) {
  return JsonList()
      .Number(DoubleBits(group.learning_rate))
      .Number(DoubleBits(group.momentum))
      .Number(DoubleBits(group.beta1))
      .Number(DoubleBits(group.beta2))
      .Number(DoubleBits(group.eps))
      .Number(DoubleBits(group.weight_decay))
      .Flag(group.nesterov)
      .Number(DoubleBits(group.dampening))
      .Number(DoubleBits(group.alpha))
      .Number(DoubleBits(group.lr_decay))
      .Number(DoubleBits(group.initial_accumulator_value))
      .Number(DoubleBits(group.momentum_decay))
      .Flag(group.maximize)
      .Flag(group.decoupled_weight_decay)
      .Take();
}

bool ReadLaterValues(const Json& json, HyperParameters* group) {
  return ReadDouble(Element(json, 7), &group->dampening) && ReadDouble(Element(json, 8), &group->alpha) &&
         ReadDouble(Element(json, 9), &group->lr_decay) &&
         ReadDouble(Element(json, 10), &group->initial_accumulator_value) &&
         ReadDouble(Element(json, 11), &group->momentum_decay) && ReadBool(Element(json, 12), &group->maximize) &&
         ReadBool(Element(json, 13), &group->decoupled_weight_decay);
}

bool ReadGroup(const Json* json, HyperParameters* group) {
  const std::size_t values = ElementCount(*json);
  if (values != kFirstValues && !(values == kValues && ReadLaterValues(*json, group))) return false;
  return ReadDouble(Element(*json, 0), &group->learning_rate) && ReadDouble(Element(*json, 1), &group->momentum) &&
         ReadDouble(Element(*json, 2), &group->beta1) && ReadDouble(Element(*json, 3), &group->beta2) &&
         ReadDouble(Element(*json, 4), &group->eps) && ReadDouble(Element(*json, 5), &group->weight_decay) &&
         ReadBool(Element(*json, 6), &group->nesterov);
}

// Writes a push's fields. The hyper-parameters come last, and are left out if there are none.
Json ToJson(const PushRecord& push) {
  JsonList json;
  json.Number(push.block)
      .Number(push.slot)
      .Number(push.sequence.value)
      .Number(push.samples)
      .Number(FloatBits(push.learning_rate))
      .Number(FloatBits(push.loss_scale))
      .Number(push.payload_hash);
  if (push.hyper.empty()) return json.Take();
  JsonList groups;
  for (const HyperParameters& group : push.hyper) groups.Value(ToJson(group));
  return json.Value(groups.Take()).Take();
}

bool ReadPush(const Json* json, PushRecord* push) {
  if (ElementCount(*json) == 8 && !ReadList(Element(*json, 7), &push->hyper, kGroupsMax, ReadGroup)) return false;
  return (ElementCount(*json) == 7 || !push->hyper.empty()) && ReadNumber(Element(*json, 0), &push->block) &&
         ReadNumber(Element(*json, 1), &push->slot, kSlotsMax - 1) && ReadNumber(Element(*json, 2), &push->sequence) &&
         ReadNumber(Element(*json, 3), &push->samples, kSamplesPerPushMax) &&
         ReadFloat(Element(*json, 4), &push->learning_rate) && ReadFloat(Element(*json, 5), &push->loss_scale) &&
         ReadNumber(Element(*json, 6), &push->payload_hash);
}

Status TakePayload(std::string_view bytes, PushRecord* push) {
  if (push->samples == 0 && bytes.empty()) return {};
  push->payload = NewSlice(bytes.size());
  std::memcpy(push->payload.owner->data(), bytes.data(), bytes.size());
  if (Hash64(push->payload.bytes()) == push->payload_hash) return {};
  return Corrupt("its payload does not match its hash");
}

Result<PushLogRecord> Decode(std::uint64_t number, std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return Corrupt("it has no first line");
  const std::optional<std::string_view> line = Unseal(number, bytes.substr(0, end));
  if (!line) return Corrupt("it does not match its own hash");
  const std::string_view payload = bytes.substr(end + 1);
  const Json json = ParseJson(*line);
  EndRecord ended;
  PushRecord push;
  if (const Json* body = Member(json, "end"); body != nullptr && ReadReport(body, &ended) && payload.empty()) {
    return PushLogRecord(ended);
  }
  if (const Json* body = Member(json, "push"); body == nullptr || !ReadPush(body, &push)) {
    return Corrupt("it is malformed");
  }
  CAPSTAN_RETURN_IF_ERROR(TakePayload(payload, &push));
  return PushLogRecord(std::move(push));
}

}  // namespace

std::string EncodePushRecord(std::uint64_t number, const PushLogRecord& record) {
  const auto* push = std::get_if<PushRecord>(&record);
  JsonObject json;
  if (push != nullptr) {
    json.Value("push", ToJson(*push));
  } else {
    json.Value("end", ToJson(std::get<EndRecord>(record)));
  }
  return Seal(number, TextOf(json.Take())) + "\n";
}

Result<PushLogRecord> DecodePushRecord(std::uint64_t number, std::string_view bytes) {
  const std::string name = "record " + std::to_string(number) + " of the log: ";
  try {
    Result<PushLogRecord> record = Decode(number, bytes);
    if (!record.ok()) return Status(record.status().code(), name + record.status().message());
    return record;
  } catch (const std::exception& failure) {  // from the JSON library
    return Corrupt(name + "it is malformed: " + failure.what());
  }
}

std::string EncodeLogTimeline(LogTimeline timeline) {
  return Seal(0, TextOf(JsonList().Number(kPushFormat).Number(timeline.id.value).Number(timeline.shard_count).Take()));
}

Result<LogTimeline> DecodeLogTimeline(std::string_view bytes) {
  const std::optional<std::string_view> text = Unseal(0, bytes);
  std::uint64_t format = 0;
  LogTimeline timeline;
  const Json json = ParseJson(text.value_or(""));
  const bool stated = ReadNumber(Element(json, 0), &format);
  if (stated && format > kPushFormat) {
    return Unsupported("the shard's log is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kPushFormat) + "; use the build that wrote it, or a newer one");
  }
  if (stated && format == kPushFormat && ElementCount(json) == 3 && ReadNumber(Element(json, 1), &timeline.id) &&
      ReadNumber(Element(json, 2), &timeline.shard_count)) {
    return timeline;
  }
  return Corrupt("the log does not say whose it is");
}

}  // namespace capstan::server
