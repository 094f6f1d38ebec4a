// Tools of the tests of a shard's log: records whose contents follow from numbers.
#pragma once

#include <string>
#include <vector>

#include "server/storage/push_log.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {

inline constexpr LogTimeline kLogTimeline{{4}, 2};

inline constexpr std::uint64_t kChildKey = 77;  // for the records that storage_child writes

// Makes, by index % 3, a push with a payload, a push without one, or a slot's end.
inline PushLogRecord MakeRecord(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t draw = PhiloxKey(key, index, 3);
  if (index % 3 == 2) {
    EndRecord end{{draw}, {}};
    end.report.slot = static_cast<SlotIndex>(index);
    end.report.samples = draw % 7;
    end.report.loss_sum = 0.1 * static_cast<double>(index);
    for (std::uint64_t i = 0; i < index % 4; ++i) {
      end.report.metrics.push_back({"m" + std::to_string(i), 0.1 * static_cast<double>(draw % 10), 3.0});
    }
    return end;
  }
  PushRecord push;
  push.block = static_cast<BlockIndex>(index * 7);
  push.slot = static_cast<SlotIndex>(index % 5);
  push.sequence = {draw};
  push.learning_rate = 0.1F * static_cast<float>(index + 1);
  push.loss_scale = 1024.0F;
  for (std::uint64_t i = 0; i < index % 4; ++i) {
    const double number = 0.1 * static_cast<double>(draw % 10 + i);
    push.hyper.push_back({number, 0.9, 0.8, 0.999, 1e-8, number / 7, i % 2 == 0});
  }
  if (index % 3 == 1) return push;
  push.samples = 1 + draw % 9;
  const BufferRef buffer = NewBuffer(64 + index % 50 * 4);
  FillArray({{key}, {index}}, 1, push.block, 0, {buffer->data(), buffer->size()});
  push.payload = WholeBuffer(buffer);
  push.payload_hash = Hash64(push.payload.bytes());
  return push;
}

inline std::vector<PushLogRecord> MakeRecords(std::uint64_t key, std::uint64_t count) {
  std::vector<PushLogRecord> records;
  for (std::uint64_t i = 0; i < count; ++i) records.push_back(MakeRecord(key, i));
  return records;
}

inline bool SameRecord(const PushLogRecord& a, const PushLogRecord& b) {
  if (a.index() != b.index()) return false;
  if (const auto* end = std::get_if<EndRecord>(&a)) {
    const auto& other = std::get<EndRecord>(b);
    return end->sequence == other.sequence && end->report == other.report;
  }
  const auto &x = std::get<PushRecord>(a), &y = std::get<PushRecord>(b);
  return x.block == y.block && x.slot == y.slot && x.sequence == y.sequence && x.samples == y.samples &&
         x.learning_rate == y.learning_rate && x.loss_scale == y.loss_scale && x.payload_hash == y.payload_hash &&
         x.hyper == y.hyper && x.payload.size == y.payload.size &&
         Hash64(x.payload.bytes()) == Hash64(y.payload.bytes());
}

// Reads the log from record `from` on, in small pieces.
inline Result<std::vector<PushLogRecord>> ReadAll(PushLog* log, std::uint64_t from,
                                                  LogTimeline timeline = kLogTimeline) {
  std::vector<PushLogRecord> records;
  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const PushLog::Piece piece, log->Read(timeline, from + records.size(), 300));
    records.insert(records.end(), piece.records.begin(), piece.records.end());
    if (piece.last) return records;
  }
}

}  // namespace capstan::server
