#include "server/storage/rocks_push_log.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/durable_file.h"
#include "server/storage/push_record_codec.h"
#include "server/storage/rocks_support.h"

namespace capstan::server {

namespace {

constexpr char kLogName[] = "the shard's log";

namespace files = std::filesystem;

constexpr const char* kTimelineKey = "history";

// Size of RocksDB's own write-ahead log at which it writes the tables and deletes that log.
constexpr std::uint64_t kWriteAheadBytesMax = std::uint64_t{256} << 20;

std::string RecordKey(std::uint64_t number) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(number >> shift & 0xFF);
  return key;
}

std::string SegmentName(std::uint64_t begin) { return "from-" + std::to_string(begin); }

std::optional<std::uint64_t> BeginOf(const std::string& name) {
  constexpr std::string_view kPrefix = "from-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t begin = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, begin);
  return error == std::errc() && stop == end ? std::optional(begin) : std::nullopt;
}

class Log : public PushLog {
 public:
  Log(std::string path, std::uint64_t segment_bytes)
      : path_(std::move(path)), segment_bytes_(segment_bytes), env_(CreatePrivateEnv()) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() override { Close(); }

  // Opens the database. Returns ok for a damaged one too: all calls but Begin then return `damage_`.
  Status Open() {
    Status opened = OpenDatabase();
    if (opened.code() == Code::kCorrupt) damage_ = std::exchange(opened, {});
    return opened;
  }

  Status Begin(LogTimeline timeline) override {
    return WithoutExceptions(kLogName, [&] { return BeginTimeline(timeline); });
  }
  Status Append(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) override {
    return WithoutExceptions(kLogName, [&] { return Write(timeline, first, records); });
  }
  Result<Piece> Read(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) override {
    return WithoutExceptions(kLogName, [&] { return ReadPiece(timeline, from, bytes_max); });
  }
  Status Trim(std::uint64_t number) override {
    return WithoutExceptions(kLogName, [&] { return DropSegments(number); });
  }

 private:
  struct Segment {
    std::uint64_t begin = 0;
    rocksdb::ColumnFamilyHandle* handle = nullptr;
  };

  Status OpenDatabase();
  void Close();
  Status ReopenIfBroken();
  Status Note(const rocksdb::Status& status);
  rocksdb::Options SegmentOptions() const;
  Status BeginTimeline(LogTimeline timeline);
  Status Write(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records);
  Status AddSegment(std::uint64_t begin);
  Status Drop(std::size_t index);
  Status CutFrom(std::uint64_t number, rocksdb::WriteBatch* batch);
  Result<Piece> ReadPiece(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max);
  // Adds the records of one segment from number `*next` on. Returns true once `*bytes_left` is used up.
  Result<bool> ReadSegment(const Segment& segment, std::uint64_t* next, std::uint64_t* bytes_left, Piece* piece) const;
  Status DropSegments(std::uint64_t number);

  const std::string path_;
  const std::uint64_t segment_bytes_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> database_;
  rocksdb::ColumnFamilyHandle* default_family_ = nullptr;
  LogTimeline timeline_;
  std::vector<Segment> segments_;   // in ascending order of records
  std::uint64_t newest_bytes_ = 0;  // written to the newest segment by this process, or segment_bytes_ to begin another
  bool broken_ = false;             // a write has failed: the database is opened again before the next write
  bool may_have_more_ = false;      // an append has failed and may have left records
  Status damage_;
};

rocksdb::Options Log::SegmentOptions() const {
  rocksdb::Options options = SnapshotOptions(env_.get());
  options.write_buffer_size = static_cast<std::size_t>(segment_bytes_ + segment_bytes_ / 2);  // a segment is one table
  return options;
}

Status Log::OpenDatabase() {
  rocksdb::Options options = StrictOptions(env_.get());
  options.create_if_missing = true;
  options.max_total_wal_size = kWriteAheadBytesMax;
  options.allow_fallocate = false;  // otherwise each segment would take its full size on disk at its beginning
  std::vector<std::string> names = {rocksdb::kDefaultColumnFamilyName};
  if (files::exists(path_ + "/CURRENT")) {
    names.clear();
    CAPSTAN_RETURN_IF_ERROR(FromRocks(rocksdb::DB::ListColumnFamilies(options, path_, &names), path_));
  }
  std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
  for (const std::string& name : names) {
    wanted.emplace_back(name, name == rocksdb::kDefaultColumnFamilyName ? options : SegmentOptions());
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* database = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, path_, wanted, &handles, &database);
  if (status.IsPathNotFound()) status = rocksdb::Status::Corruption(status.ToString());  // a file is gone
  CAPSTAN_RETURN_IF_ERROR(FromRocks(status, path_));
  database_.reset(database);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    const std::optional<std::uint64_t> begin = BeginOf(handle->GetName());
    if (begin) segments_.push_back({*begin, handle});
    if (!begin) default_family_ = handle;
  }
  std::sort(segments_.begin(), segments_.end(), [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(files::path(path_).parent_path()));
  std::string text;
  status = database_->Get(rocksdb::ReadOptions(), default_family_, kTimelineKey, &text);
  timeline_ = {};
  if (status.IsNotFound()) return {};
  CAPSTAN_RETURN_IF_ERROR(FromRocks(status, path_));
  CAPSTAN_ASSIGN_OR_RETURN(timeline_, DecodeLogTimeline(text));
  return {};
}

void Log::Close() {
  if (database_ == nullptr) return;
  for (const Segment& segment : segments_) (void)database_->DestroyColumnFamilyHandle(segment.handle);
  segments_.clear();
  if (default_family_ != nullptr) (void)database_->DestroyColumnFamilyHandle(std::exchange(default_family_, nullptr));
  (void)database_->Close();
  database_.reset();
}

Status Log::Note(const rocksdb::Status& status) {
  broken_ = broken_ || !status.ok();
  return FromRocks(status, path_);
}

// Opens the database again from disk if a write has failed.
Status Log::ReopenIfBroken() {
  if (!damage_.ok()) return damage_;
  if (!broken_ && database_ != nullptr) return {};
  Close();
  CAPSTAN_RETURN_IF_ERROR(Open());
  broken_ = false;
  newest_bytes_ = segment_bytes_;  // the size is unknown, so the next record begins a segment
  return damage_;
}

// ---- writing -------------------------------------------------------------------------------------------------------

Status Log::BeginTimeline(LogTimeline timeline) {
  const Status usable = ReopenIfBroken();
  if (!damage_.ok()) {
    Close();
    files::remove_all(path_);
    damage_ = {};
    CAPSTAN_RETURN_IF_ERROR(OpenDatabase());
  } else if (!usable.ok()) {
    return usable;
  }
  while (!segments_.empty()) CAPSTAN_RETURN_IF_ERROR(Drop(segments_.size() - 1));
  rocksdb::WriteOptions durable;
  durable.sync = true;
  CAPSTAN_RETURN_IF_ERROR(Note(database_->Put(durable, default_family_, kTimelineKey, EncodeLogTimeline(timeline))));
  // Without this flush, these few bytes would keep RocksDB's whole write-ahead log alive.
  CAPSTAN_RETURN_IF_ERROR(Note(database_->Flush(rocksdb::FlushOptions(), default_family_)));
  timeline_ = timeline;
  may_have_more_ = false;
  return {};
}

Status Log::AddSegment(std::uint64_t begin) {
  Segment segment{begin, nullptr};
  CAPSTAN_RETURN_IF_ERROR(Note(database_->CreateColumnFamily(SegmentOptions(), SegmentName(begin), &segment.handle)));
  rocksdb::FlushOptions in_background;
  in_background.wait = false;
  if (!segments_.empty()) CAPSTAN_RETURN_IF_ERROR(Note(database_->Flush(in_background, segments_.back().handle)));
  segments_.push_back(segment);
  newest_bytes_ = 0;
  return {};
}

Status Log::Drop(std::size_t index) {
  CAPSTAN_RETURN_IF_ERROR(Note(database_->DropColumnFamily(segments_[index].handle)));
  (void)database_->DestroyColumnFamilyHandle(segments_[index].handle);
  segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(index));
  return {};
}

// Removes records that a failed append may have left.
Status Log::CutFrom(std::uint64_t number, rocksdb::WriteBatch* batch) {
  while (!segments_.empty() && segments_.back().begin >= number) {
    CAPSTAN_RETURN_IF_ERROR(Drop(segments_.size() - 1));
    newest_bytes_ = segment_bytes_;
  }
  if (segments_.empty()) return {};
  return Note(batch->DeleteRange(segments_.back().handle, RecordKey(number), RecordKey(UINT64_MAX)));
}

Status Log::Write(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) {
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  if (timeline != timeline_.id) return Invalid(path_ + ": the log is of another timeline");
  rocksdb::WriteBatch batch;
  if (may_have_more_) CAPSTAN_RETURN_IF_ERROR(CutFrom(first, &batch));
  may_have_more_ = true;
  if (segments_.empty() || newest_bytes_ >= segment_bytes_) CAPSTAN_RETURN_IF_ERROR(AddSegment(first));
  std::uint64_t number = first;
  for (const PushLogRecord& record : records) {
    const std::string key = RecordKey(number), line = EncodePushRecord(number, record);
    const auto* push = std::get_if<PushRecord>(&record);
    const bool carries = push != nullptr && !push->payload.empty();
    const rocksdb::Slice key_part(key);
    const rocksdb::Slice parts[] = {
        line, carries ? rocksdb::Slice(reinterpret_cast<const char*>(push->payload.data), push->payload.size)
                      : rocksdb::Slice()};
    CAPSTAN_RETURN_IF_ERROR(
        Note(batch.Put(segments_.back().handle, rocksdb::SliceParts(&key_part, 1), rocksdb::SliceParts(parts, 2))));
    newest_bytes_ += BytesOf(record);
    ++number;
  }
  rocksdb::WriteOptions durable;
  durable.sync = true;
  CAPSTAN_RETURN_IF_ERROR(Note(database_->Write(durable, &batch)));
  may_have_more_ = false;
  return {};
}

// Drops segments whose records are all before `number`. The newest segment stays, so the last number is not lost.
Status Log::DropSegments(std::uint64_t number) {
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  while (segments_.size() > 1 && segments_[1].begin <= number) CAPSTAN_RETURN_IF_ERROR(Drop(0));
  return {};
}

// ---- reading -------------------------------------------------------------------------------------------------------

Result<bool> Log::ReadSegment(const Segment& segment, std::uint64_t* next, std::uint64_t* bytes_left,
                              Piece* piece) const {
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions(), segment.handle));
  for (at->Seek(RecordKey(*next)); at->Valid(); at->Next(), ++*next) {
    if (*bytes_left == 0) return true;
    if (at->key() != RecordKey(*next)) {
      return Corrupt(path_ + ": record " + std::to_string(*next) + " of the log is missing");
    }
    CAPSTAN_ASSIGN_OR_RETURN(PushLogRecord record, DecodePushRecord(*next, at->value().ToStringView()));
    *bytes_left -= std::min(*bytes_left, BytesOf(record));
    piece->records.push_back(std::move(record));
  }
  CAPSTAN_RETURN_IF_ERROR(FromRocks(at->status(), path_));
  return false;
}

Result<PushLog::Piece> Log::ReadPiece(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) {
  CAPSTAN_RETURN_IF_ERROR(ReopenIfBroken());
  CAPSTAN_RETURN_IF_ERROR(CheckTimeline(timeline, timeline_));
  Piece piece;
  std::uint64_t bytes_left = std::max<std::uint64_t>(bytes_max, 1);
  if (!segments_.empty() && from < segments_.front().begin) {
    return Corrupt(path_ + ": the log begins with record " + std::to_string(segments_.front().begin) + ", not " +
                   std::to_string(from));
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const bool before = i + 1 < segments_.size() && segments_[i + 1].begin <= from;
    if (before) continue;
    CAPSTAN_ASSIGN_OR_RETURN(const bool full, ReadSegment(segments_[i], &from, &bytes_left, &piece));
    if (full) return piece;
    const bool hole = i + 1 < segments_.size() && segments_[i + 1].begin > from;
    if (hole) return Corrupt(path_ + ": record " + std::to_string(from) + " of the log is missing");
  }
  piece.last = true;
  return piece;
}

}  // namespace

Result<std::unique_ptr<PushLog>> RocksPushLog::Open(const std::string& folder, std::uint64_t segment_bytes) {
  return WithoutExceptions(kLogName, [&]() -> Result<std::unique_ptr<PushLog>> {
    auto log = std::make_unique<Log>(folder + kPushLogFolder, segment_bytes);
    CAPSTAN_RETURN_IF_ERROR(log->Open());
    return std::unique_ptr<PushLog>(std::move(log));
  });
}

}  // namespace capstan::server
