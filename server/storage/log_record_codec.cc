#include "server/storage/log_record_codec.h"

#include <exception>

#include "common/wire_codec.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

using server::ToJson;

constexpr std::uint64_t kFormat = 1;
constexpr const char* kWhat = "capstan coordinator log";

// ---- writing -------------------------------------------------------------------------------------------------------

Json ToJson(const TensorSpec& tensor) {
  return Json::array({tensor.name, tensor.shape, static_cast<unsigned>(tensor.init.kind), FloatBits(tensor.init.scale),
                      tensor.decay, tensor.group, static_cast<unsigned>(tensor.kind)});
}

Json ToJson(const JobRecord& record) {
  return {{"record", "job"}, {"job", ToJson(record.job)}, {"job_file", record.job_file}};
}
Json ToJson(const CatalogRecord& record) {
  Json tensors = Json::array();
  for (const TensorSpec& tensor : record.tensors) tensors.push_back(ToJson(tensor));
  return {{"record", "catalog"},
          {"tensors", std::move(tensors)},
          {"numeric_class", record.numeric_class},
          {"numeric_fingerprint", record.numeric_fingerprint},
          {"data_fingerprint", record.data_fingerprint}};
}
Json ToJson(const TermRecord& record) { return {{"record", "term"}, {"term", record.term.value}}; }
Json ToJson(const SessionRecord& record) { return {{"record", "session"}, {"session", record.session.value}}; }
Json ToJson(const RecoverRecord& record) {
  return {{"record", "recover"},
          {"generation", record.generation.value},
          {"snapshot", ToJson(record.snapshot)},
          {"parameters", ToJson(record.parameters)},
          {"history", record.history.value}};
}
Json ToJson(const RunningRecord& record) {
  Json incarnations = Json::array();
  for (const Incarnation incarnation : record.incarnations) incarnations.push_back(incarnation.value);
  return {{"record", "running"}, {"generation", record.generation.value}, {"incarnations", std::move(incarnations)}};
}
Json ToJson(const ManifestRecord& record) {
  return {{"record", "manifest"},
          {"id", ToJson(record.id)},
          {"parameters", ToJson(record.parameters)},
          {"digests", record.digests},
          {"bytes", record.bytes}};
}
Json ToJson(const DoneRecord&) { return {{"record", "done"}}; }

// ---- reading -------------------------------------------------------------------------------------------------------

bool ReadExtent(const Json* json, std::int64_t* extent) {
  if (!json->is_number_integer()) return false;
  if (json->is_number_unsigned() && json->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) return false;
  *extent = json->get<std::int64_t>();
  return true;
}

// 5 entries: from before groups; 6: from before kinds.
bool ReadTensor(const Json* json, TensorSpec* tensor) {
  unsigned init = 0, kind = 0;
  const std::size_t entries = json->size();
  const bool good =
      entries >= 5 && entries <= 7 && ReadText(Element(*json, 0), &tensor->name) &&
      ReadList(Element(*json, 1), &tensor->shape, kDimensionsMax, ReadExtent) &&
      ReadNumber(Element(*json, 2), &init, static_cast<unsigned>(InitKind::kGiven)) &&
      ReadFloat(Element(*json, 3), &tensor->init.scale) && ReadBool(Element(*json, 4), &tensor->decay) &&
      (entries < 6 || ReadNumber(Element(*json, 5), &tensor->group)) &&
      (entries < 7 || ReadNumber(Element(*json, 6), &kind, static_cast<unsigned>(TensorKind::kStatistic)));
  tensor->init.kind = static_cast<InitKind>(init);
  tensor->kind = static_cast<TensorKind>(kind);
  return good;
}

bool Read(const Json& json, JobRecord* record) {
  return ReadJob(Member(json, "job"), &record->job) && ReadText(Member(json, "job_file"), &record->job_file);
}
bool Read(const Json& json, CatalogRecord* record) {
  return ReadList(Member(json, "tensors"), &record->tensors, kTensorsMax, ReadTensor) &&
         ReadText(Member(json, "numeric_class"), &record->numeric_class) &&
         ReadNumber(Member(json, "numeric_fingerprint"), &record->numeric_fingerprint) &&
         ReadNumber(Member(json, "data_fingerprint"), &record->data_fingerprint);
}
bool Read(const Json& json, TermRecord* record) { return ReadNumber(Member(json, "term"), &record->term); }
bool Read(const Json& json, SessionRecord* record) { return ReadNumber(Member(json, "session"), &record->session); }
// A log from before histories were written down: each generation is one.
bool Read(const Json& json, RecoverRecord* record) {
  const bool good = ReadNumber(Member(json, "generation"), &record->generation) &&
                    ReadSnapshotId(Member(json, "snapshot"), &record->snapshot) &&
                    ReadParameters(Member(json, "parameters"), &record->parameters);
  record->history = record->generation;
  const Json* history = Member(json, "history");
  return good && (history == nullptr || ReadNumber(history, &record->history));
}
bool Read(const Json& json, RunningRecord* record) {
  return ReadNumber(Member(json, "generation"), &record->generation) &&
         ReadList(Member(json, "incarnations"), &record->incarnations, kListEntriesMax,
                  [](const Json* from, Incarnation* to) { return ReadNumber(from, to); });
}
bool Read(const Json& json, ManifestRecord* record) {
  return ReadSnapshotId(Member(json, "id"), &record->id) &&
         ReadParameters(Member(json, "parameters"), &record->parameters) &&
         ReadNumbers(Member(json, "digests"), &record->digests, kListEntriesMax) &&
         ReadNumber(Member(json, "bytes"), &record->bytes);
}
bool Read(const Json&, DoneRecord*) { return true; }

template <class Record>
bool ReadAs(const Json& json, LogRecord* record) {
  return Read(json, &record->emplace<Record>());
}

using Reader = bool (*)(const Json&, LogRecord*);

Reader ReaderOf(std::string_view kind) {
  if (kind == "job") return ReadAs<JobRecord>;
  if (kind == "catalog") return ReadAs<CatalogRecord>;
  if (kind == "term") return ReadAs<TermRecord>;
  if (kind == "session") return ReadAs<SessionRecord>;
  if (kind == "recover") return ReadAs<RecoverRecord>;
  if (kind == "running") return ReadAs<RunningRecord>;
  if (kind == "manifest") return ReadAs<ManifestRecord>;
  if (kind == "done") return ReadAs<DoneRecord>;
  return nullptr;
}

Result<LogRecord> Decode(std::string_view text) {
  const Json json = ParseJson(text);
  std::string kind;
  if (!ReadText(Member(json, "record"), &kind)) return Corrupt("a record without a kind");
  const Reader read = ReaderOf(kind);
  if (read == nullptr) return Corrupt("a record of the unknown kind \"" + kind + "\"");
  LogRecord record;
  if (!read(json, &record)) return Corrupt("a malformed record of kind \"" + kind + "\"");
  return record;
}

}  // namespace

std::string EncodeLogHeader() { return Json{{"what", kWhat}, {"format", kFormat}}.dump(); }

Status CheckLogHeader(std::string_view text) {
  const Json json = ParseJson(text);
  std::string what;
  std::uint64_t format = 0;
  if (!ReadText(Member(json, "what"), &what) || what != kWhat || !ReadNumber(Member(json, "format"), &format)) {
    return Corrupt("this is no coordinator's log");
  }
  if (format > kFormat) {
    return Unsupported("the log is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kFormat) + "; use the build that wrote it, or a newer one");
  }
  return {};
}

Result<std::string> EncodeLogRecord(const LogRecord& record) {
  try {
    return std::visit([](const auto& what) { return ToJson(what).dump(); }, record);
  } catch (const std::exception& failure) {  // of the JSON library: a text that is not UTF-8
    return Invalid(std::string("a record cannot be written down: ") + failure.what());
  }
}

Result<LogRecord> DecodeLogRecord(std::string_view json) {
  try {
    return Decode(json);
  } catch (const std::exception& failure) {
    return Corrupt(std::string("a malformed record: ") + failure.what());
  }
}

}  // namespace capstan::server
