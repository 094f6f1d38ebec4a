// SafetensorsWriter, ReadSafetensors: fp32 tensors in the safetensors format.
//
// Kind:   a writer is owned by one thread; reading is a pure function.
// Limits: kSafetensorsHeaderMax bytes of header, the format's own bound.
// Fails:  Create, Write, Commit: kBusy (no room), kUnreachable (the disk fails, or `path` is no regular file). Reading:
//         kInvalid (the file cannot be opened, or is larger than the free memory), kCorrupt.
// Why:    the file's bytes depend only on names, shapes, metadata and weights, so two runs can be compared by sha256.
// Format: https://github.com/huggingface/safetensors, "Format": u64 length, JSON header, tensors back to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/free_memory.h"
#include "common/base/status.h"
#include "common/data/catalog.h"

namespace capstan {

inline constexpr std::size_t kSafetensorsHeaderMax = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte range after the header
};

struct SafetensorsFile {
  std::vector<SafetensorsEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::vector<std::byte> data;
};

// Texts by name, which a header can hold besides the tensors.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Returns the beginning of a file: the header's length, then the header, padded to a multiple of 8 bytes. The header
// places the tensors in the given order, back to back.
std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata = {});

// Reads a header: `header` is its text without the length before it. `data_bytes`: the bytes that follow in the file.
Result<SafetensorsFile> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes);
// Reads a file. `memory`: what the process may still take; a larger file is refused.
Result<SafetensorsFile> ReadSafetensors(const std::string& path, const MemoryLimit& memory = ReadFreeMemory().resident);

// Allocates the whole file on disk at once, writes PATH.partial, and renames it durably on Commit.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> Create(std::string path, const std::vector<TensorSpec>& tensors,
                                          const SafetensorsMetadata& metadata = {});
  ~SafetensorsWriter();  // an uncommitted file is removed
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;

  // `element`: index of the first value among the elements of all tensors, in order. Values may come in any order.
  Status Write(std::uint64_t element, std::span<const std::byte> values);
  Status Commit();

 private:
  SafetensorsWriter(std::string path, int fd, std::uint64_t data_offset)
      : path_(std::move(path)), fd_(fd), data_offset_(data_offset) {}
  Status Failure(const char* what) const;

  std::string path_;
  int fd_;
  std::uint64_t data_offset_;
};

}  // namespace capstan
