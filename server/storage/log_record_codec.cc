#include "server/storage/log_record_codec.h"

#include <exception>

#include "common/wire/messages/limits.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

using server::ToJson;

constexpr std::uint64_t kLogFormat = 1;
constexpr const char* kWhat = "capstan coordinator log";

// ---- writing -------------------------------------------------------------------------------------------------------

Json ToJson(const TensorSpec& tensor) {
  JsonList shape;
  for (const std::int64_t extent : tensor.shape) shape.Signed(extent);
  return JsonList()
      .Text(tensor.name)
      .Value(shape.Take())
      .Number(static_cast<unsigned>(tensor.init.kind))
      .Number(FloatBits(tensor.init.scale))
      .Flag(tensor.decay)
      .Number(tensor.group)
      .Number(static_cast<unsigned>(tensor.kind))
      .Take();
}

JsonObject Begin(const char* kind) {
  JsonObject json;
  json.Text("record", kind);
  return json;
}

Json ToJson(const JobRecord& record) {
  return Begin("job").Value("job", ToJson(record.job)).Text("job_file", record.job_file).Take();
}
Json ToJson(const CatalogRecord& record) {
  JsonList tensors;
  for (const TensorSpec& tensor : record.tensors) tensors.Value(ToJson(tensor));
  return Begin("catalog")
      .Value("tensors", tensors.Take())
      .Text("numeric_class", record.numeric_class)
      .Number("numeric_fingerprint", record.numeric_fingerprint)
      .Number("data_fingerprint", record.data_fingerprint)
      .Take();
}
Json ToJson(const TermRecord& record) { return Begin("term").Number("term", record.term.value).Take(); }
Json ToJson(const RecoverRecord& record) {
  return Begin("recover")
      .Number("generation", record.generation.value)
      .Value("snapshot", ToJson(record.snapshot))
      .Value("parameters", ToJson(record.parameters))
      .Number("history", record.timeline.value)
      .Take();
}
Json ToJson(const RunningRecord& record) {
  JsonList incarnations;
  for (const Incarnation incarnation : record.incarnations) incarnations.Number(incarnation.value);
  return Begin("running")
      .Number("generation", record.generation.value)
      .Value("incarnations", incarnations.Take())
      .Take();
}
Json ToJson(const ManifestRecord& record) {
  return Begin("manifest")
      .Value("id", ToJson(record.id))
      .Value("parameters", ToJson(record.parameters))
      .Value("digests", ToJson(record.digests))
      .Number("bytes", record.bytes)
      .Take();
}
Json ToJson(const DoneRecord&) { return Begin("done").Take(); }

// ---- reading -------------------------------------------------------------------------------------------------------

// Reads a tensor. An older format has 6 entries, without the kind, or 5, without the group too.
bool ReadTensor(const Json* json, TensorSpec* tensor) {
  unsigned init = 0, kind = 0;
  const std::size_t entries = ElementCount(*json);
  const bool good =
      entries >= 5 && entries <= 7 && ReadText(Element(*json, 0), &tensor->name) &&
      ReadList(Element(*json, 1), &tensor->shape, kDimensionsMax, ReadSigned) &&
      ReadNumber(Element(*json, 2), &init, static_cast<unsigned>(InitKind::kFromWorker)) &&
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
bool Read(const Json& json, TermRecord* record) { return ReadCount(Member(json, "term"), &record->term); }
// A log of an older build has no timelines: there each generation is its own timeline.
bool Read(const Json& json, RecoverRecord* record) {
  const bool good = ReadCount(Member(json, "generation"), &record->generation) &&
                    ReadSnapshotId(Member(json, "snapshot"), &record->snapshot) &&
                    ReadParameters(Member(json, "parameters"), &record->parameters);
  record->timeline = TimelineFrom(record->generation);
  const Json* timeline = Member(json, "history");
  return good && (timeline == nullptr || ReadCount(timeline, &record->timeline));
}
bool Read(const Json& json, RunningRecord* record) {
  return ReadCount(Member(json, "generation"), &record->generation) &&
         ReadList(Member(json, "incarnations"), &record->incarnations, kListEntriesMax,
                  [](const Json* from, Incarnation* to) { return ReadCount(from, to); });
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
  if (kind == "recover") return ReadAs<RecoverRecord>;
  if (kind == "running") return ReadAs<RunningRecord>;
  if (kind == "manifest") return ReadAs<ManifestRecord>;
  if (kind == "done") return ReadAs<DoneRecord>;
  return nullptr;
}

bool HasKind(std::string_view text, std::string_view wanted) {
  const Json json = ParseJson(text);
  std::string kind;
  return ReadText(Member(json, "record"), &kind) && kind == wanted;
}

Result<LogRecord> DecodeLogged(std::string_view text) {
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

std::string EncodeLogHeader() { return TextOf(JsonObject().Text("what", kWhat).Number("format", kLogFormat).Take()); }

Status CheckLogHeader(std::string_view text) {
  const Json json = ParseJson(text);
  std::string what;
  std::uint64_t format = 0;
  if (!ReadText(Member(json, "what"), &what) || what != kWhat || !ReadNumber(Member(json, "format"), &format)) {
    return Corrupt("this is no coordinator's log");
  }
  if (format > kLogFormat) {
    return Unsupported("the log is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kLogFormat) + "; use the build that wrote it, or a newer one");
  }
  return {};
}

bool IsObsoleteLogRecord(std::string_view json) {
  try {
    return HasKind(json, "session");  // reserved ids of sessions, when these were counted
  } catch (const std::exception&) {
    return false;
  }
}

Result<LogRecord> DecodeLogRecord(std::string_view json) {
  try {
    return DecodeLogged(json);
  } catch (const std::exception& failure) {
    return Corrupt(std::string("a malformed record: ") + failure.what());
  }
}

// Decodes the text again before it returns it, so that no record is written which the decoder would refuse.
Result<std::string> EncodeLogRecord(const LogRecord& record) {
  try {
    std::string text = std::visit([](const auto& what) { return TextOf(ToJson(what)); }, record);
    if (const Status status = DecodeLogRecord(text).status(); !status.ok()) {
      return Invalid("a record cannot be written down so that it can be read: " + status.message());
    }
    return text;
  } catch (const std::exception& failure) {  // from the JSON library: a text is not UTF-8
    return Invalid(std::string("a record cannot be written down: ") + failure.what());
  }
}

}  // namespace capstan::server
