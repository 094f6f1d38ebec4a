// SafetensorsWriter, ReadSafetensors: fp32 tensors in the safetensors format.
//
// Kind:   a writer is owned by one thread; reading is a pure function.
// Limits: kSafetensorsHeaderMax bytes of header, the format's own bound.
// Fails:  Create, Write, Commit: kBusy (no room), kUnreachable (the disk fails). Reading: kInvalid (no
//         such file), kCorrupt.
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

// The text fields that a file's header may have, by name.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Returns the beginning of a file: the header's length, then the header, padded to a multiple of 8 bytes. It places the
// tensors in the order given, back to back.
std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata = {});

// Reads a header. `header`: its text without its length. `data_bytes`: the number of bytes after it in the file.
Result<SafetensorsFile> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes);
Result<SafetensorsFile> ReadSafetensors(const std::string& path);

// Allocates the whole file on disk at once, writes PATH.partial, and renames it durably on Commit.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> Create(std::string path, const std::vector<TensorSpec>& tensors,
                                          const SafetensorsMetadata& metadata = {});
  ~SafetensorsWriter();  // an uncommitted file is removed
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;

  // `element`: the first value's place in flat space (catalog.h). Values may come in any order, each once.
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
