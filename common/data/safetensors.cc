#include "common/data/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "common/base/durable_file.h"
#include "common/base/utf8.h"

namespace capstan {
namespace {

// ---- JSON, as little of it as the header uses ----------------------------------------------------------------------

void AppendQuoted(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') *out += '\\';
    if (byte < 0x20) {
      *out += "\\u00";
      *out += kHex[byte >> 4];
      *out += kHex[byte & 15];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

// A cursor over the header's text. Every method advances past what it took, or returns nothing or false.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::size_t position() const { return position_; }
  bool Take(char wanted) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return position_ == text_.size();
  }
  std::optional<std::uint64_t> Number() {
    SkipSpace();
    const std::size_t start = position_;
    std::uint64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      const auto digit = static_cast<std::uint64_t>(text_[position_] - '0');
      if (value > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return std::nullopt;
      value = value * 10 + digit;
    }
    const std::size_t digits = position_ - start;
    if (digits == 0 || (digits > 1 && text_[start] == '0')) return std::nullopt;
    return value;
  }
  std::optional<std::string> String() {
    if (!Take('"')) return std::nullopt;
    std::string value;
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c == '"') return value;
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c != '\\') {
        value += c;
      } else if (!Escape(&value)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }
  // [1, 2, 3]
  std::optional<std::vector<std::uint64_t>> Numbers() {
    if (!Take('[')) return std::nullopt;
    std::vector<std::uint64_t> values;
    if (Take(']')) return values;
    do {
      const std::optional<std::uint64_t> value = Number();
      if (!value) return std::nullopt;
      values.push_back(*value);
    } while (Take(','));
    if (!Take(']')) return std::nullopt;
    return values;
  }

 private:
  void SkipSpace() {
    while (position_ < text_.size() && std::strchr(" \t\n\r", text_[position_]) != nullptr && text_[position_] != 0) {
      ++position_;
    }
  }
  bool Escape(std::string* out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (position_ >= text_.size()) return false;
    const char c = text_[position_++];
    if (const std::size_t i = kFrom.find(c); i != kFrom.npos) {
      *out += kTo[i];
      return true;
    }
    if (c != 'u') return false;
    std::optional<std::uint32_t> code = Hex4();
    if (code && *code >= 0xD800 && *code < 0xDC00) {  // the first half of a surrogate pair
      if (text_.substr(position_, 2) != "\\u") return false;
      position_ += 2;
      const std::optional<std::uint32_t> low = Hex4();
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    if (!code || (*code >= 0xD800 && *code <= 0xDFFF)) return false;
    AppendUtf8(*code, out);
    return true;
  }
  std::optional<std::uint32_t> Hex4() {
    if (text_.size() - position_ < 4) return std::nullopt;
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[position_++];
      const std::size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
      const bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_digit) return std::nullopt;
      value = value << 4 | static_cast<std::uint32_t>(c <= '9' ? c - '0' : digit);
    }
    return value;
  }
  static void AppendUtf8(std::uint32_t code, std::string* out) {
    const auto tail = [&](int shift) { *out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      *out += static_cast<char>(code);
    } else if (code < 0x800) {
      *out += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      *out += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      *out += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  const std::string_view text_;
  std::size_t position_ = 0;
};

// ---- the header ----------------------------------------------------------------------------------------------------

struct DtypeBits {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array<DtypeBits, 15> kDtypes = {{{"BOOL", 8},
                                                {"U8", 8},
                                                {"I8", 8},
                                                {"F8_E5M2", 8},
                                                {"F8_E4M3", 8},
                                                {"I16", 16},
                                                {"U16", 16},
                                                {"F16", 16},
                                                {"BF16", 16},
                                                {"I32", 32},
                                                {"U32", 32},
                                                {"F32", 32},
                                                {"F64", 64},
                                                {"I64", 64},
                                                {"U64", 64}}};

std::optional<std::uint64_t> BytesOf(const SafetensorsEntry& entry) {
  const auto dtype =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeBits& d) { return d.name == entry.dtype; });
  if (dtype == kDtypes.end()) return std::nullopt;
  std::uint64_t bytes = dtype->bits / 8;
  for (std::uint64_t extent : entry.shape) {
    if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

bool ReadMetadata(Reader* reader, std::map<std::string, std::string>* metadata) {
  if (!reader->Take('{')) return false;
  if (reader->Take('}')) return true;
  do {
    std::optional<std::string> key = reader->String();
    if (!key || !reader->Take(':')) return false;
    std::optional<std::string> value = reader->String();
    if (!value || !metadata->emplace(std::move(*key), std::move(*value)).second) return false;
  } while (reader->Take(','));
  return reader->Take('}');
}

bool ReadEntry(Reader* reader, SafetensorsEntry* entry) {
  if (!reader->Take('{')) return false;
  std::set<std::string> seen;
  do {
    const std::optional<std::string> key = reader->String();
    if (!key || !reader->Take(':') || !seen.insert(*key).second) return false;
    if (*key == "dtype") {
      std::optional<std::string> dtype = reader->String();
      if (!dtype) return false;
      entry->dtype = std::move(*dtype);
    } else if (*key == "shape") {
      std::optional<std::vector<std::uint64_t>> shape = reader->Numbers();
      if (!shape) return false;
      entry->shape = std::move(*shape);
    } else if (*key == "data_offsets") {
      const std::optional<std::vector<std::uint64_t>> offsets = reader->Numbers();
      if (!offsets || offsets->size() != 2) return false;
      entry->begin = (*offsets)[0];
      entry->end = (*offsets)[1];
    } else {
      return false;
    }
  } while (reader->Take(','));
  return reader->Take('}') && seen.size() == 3;
}

Status CheckLayout(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : tensors) {
    const std::string who = "tensor \"" + entry.name + "\"";
    const std::optional<std::uint64_t> bytes = BytesOf(entry);
    if (!bytes) return Corrupt(who + " has an unknown type or is too large");
    if (entry.begin != next) return Corrupt(who + " does not follow the one before it without a gap or overlap");
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
      return Corrupt(who + " is of another size than its type and shape say");
    }
    next = entry.end;
  }
  if (next != data_bytes) {
    return Corrupt("the tensors take " + std::to_string(next) + " bytes, the file has " + std::to_string(data_bytes));
  }
  return {};
}

std::string LengthBytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

}  // namespace

std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata) {
  std::string json = "{\"__metadata__\":{\"format\":\"pt\"";
  for (const auto& [key, value] : metadata) {
    json += ',';
    AppendQuoted(key, &json);
    json += ':';
    AppendQuoted(value, &json);
  }
  json += '}';
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    json += ',';
    AppendQuoted(tensor.name, &json);
    json += ":{\"dtype\":\"F32\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) json += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    const std::uint64_t end = offset + tensor.ElementCount() * sizeof(float);
    json += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  return LengthBytes(json.size()) + json;
}

Result<SafetensorsFile> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes) {
  if (!header.starts_with('{')) return Corrupt("the header does not begin with {");
  if (!IsUtf8(header)) return Corrupt("the header is not UTF-8");
  Reader reader(header);
  SafetensorsFile file;
  std::set<std::string> names;
  const auto bad = [&] { return Corrupt("the header is malformed at byte " + std::to_string(reader.position())); };
  if (!reader.Take('{')) return bad();
  if (!reader.Take('}')) {
    do {
      std::optional<std::string> name = reader.String();
      if (!name || !reader.Take(':')) return bad();
      if (!names.insert(*name).second) return Corrupt("two entries are named \"" + *name + "\"");
      if (*name == "__metadata__") {
        if (!ReadMetadata(&reader, &file.metadata)) return bad();
        continue;
      }
      SafetensorsEntry entry;
      entry.name = std::move(*name);
      if (!ReadEntry(&reader, &entry)) return bad();
      file.tensors.push_back(std::move(entry));
    } while (reader.Take(','));
    if (!reader.Take('}')) return bad();
  }
  if (!reader.AtEnd()) return bad();
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CAPSTAN_RETURN_IF_ERROR(CheckLayout(file.tensors, data_bytes));
  return file;
}

Result<SafetensorsFile> ReadSafetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return Invalid("cannot read " + path + ": " + std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(in.tellg());
  in.seekg(0);
  std::array<unsigned char, 8> length{};
  if (size < length.size() || !in.read(reinterpret_cast<char*>(length.data()), length.size())) {
    return Corrupt(path + " is not a safetensors file: it has " + std::to_string(size) +
                   " bytes, and one begins with 8");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > kSafetensorsHeaderMax || header_bytes > size - length.size()) {
    return Corrupt(path + " is not a safetensors file, or is cut short: its first 8 bytes name a header of " +
                   std::to_string(header_bytes) + " bytes, and " + std::to_string(size - length.size()) + " follow");
  }
  if (header_bytes > 0 && in.peek() != '{') {
    return Corrupt(path + " is not a safetensors file: its header does not begin with {");
  }
  std::string header(header_bytes, '\0');
  const std::uint64_t data_bytes = size - length.size() - header_bytes;
  if (!in.read(header.data(), static_cast<std::streamsize>(header_bytes)))
    return Corrupt(path + " cannot be read whole");
  Result<SafetensorsFile> file = ParseSafetensorsHeader(header, data_bytes);
  if (!file.ok()) return Corrupt(path + ": " + file.status().message());
  file->data.resize(data_bytes);
  if (!in.read(reinterpret_cast<char*>(file->data.data()), static_cast<std::streamsize>(data_bytes))) {
    return Corrupt(path + " cannot be read whole");
  }
  return file;
}

// ---- writing -------------------------------------------------------------------------------------------------------

namespace {

bool WriteAt(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return true;
}

std::string Partial(const std::string& path) { return path + ".partial"; }

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::Create(std::string path, const std::vector<TensorSpec>& tensors,
                                                    const SafetensorsMetadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return Unreachable("cannot write " + path + ": it is there, and no file; choose another name");
  }
  const int fd = open(Partial(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return DiskFailure("create", Partial(path), errno);
  SafetensorsWriter writer(std::move(path), fd, header.size());
  const std::uint64_t bytes = std::accumulate(
      tensors.begin(), tensors.end(), std::uint64_t{header.size()},
      [](std::uint64_t sum, const TensorSpec& tensor) { return sum + tensor.ElementCount() * sizeof(float); });
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    return DiskFailure("write", Partial(writer.path_), error);
  }
  if (!WriteAt(fd, std::as_bytes(std::span(header)), 0)) return writer.Failure("write");
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), data_offset_(other.data_offset_) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(Partial(path_).c_str());
}

Status SafetensorsWriter::Failure(const char* what) const { return DiskFailure(what, Partial(path_), errno); }

Status SafetensorsWriter::Write(std::uint64_t element, std::span<const std::byte> values) {
  if (!WriteAt(fd_, values, data_offset_ + element * sizeof(float))) return Failure("write");
  return {};
}

Status SafetensorsWriter::Commit() {
  if (fsync(fd_) != 0) return Failure("fsync");
  CAPSTAN_RETURN_IF_ERROR(RenameDurably(Partial(path_), path_));
  close(std::exchange(fd_, -1));
  return {};
}

}  // namespace capstan
