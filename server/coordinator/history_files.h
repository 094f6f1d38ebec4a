// ReadHistory: the history of a job from the files of its run directory, after a restart of the coordinator.
//
// Kind:   function; it reads files.
// Limits: of metrics.jsonl and of audit.jsonl, each with its older files, `bytes_max` are read; of more, evenly spaced
//         pieces, so that the whole job is visible. A line has kHistoryLineMax bytes.
// Fails:  never: what cannot be read, and lines that are damaged, are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace capstan::server {

class History;

inline constexpr std::uint64_t kHistoryBytesMax = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kHistoryLineMax = std::uint64_t{16} << 10;

void ReadHistory(const std::string& run_dir, History* history, std::uint64_t bytes_max = kHistoryBytesMax);

}  // namespace capstan::server
