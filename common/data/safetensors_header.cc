#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#include "common/base/utf8.h"
#include "common/data/safetensors.h"

namespace capstan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMetadata = "__metadata__";

// ---- reading -------------------------------------------------------------------------------------------------------

// Takes the header's JSON values one by one. Refuses all that the format does not have, such as deeper nesting.
class SafetensorsReader final : public nlohmann::json_sax<Json> {
 public:
  explicit SafetensorsReader(SafetensorsFile* file) : file_(file) {}
  const Status& status() const { return status_; }

  bool start_object(std::size_t /*count*/) override {
    if (depth_ == kDepthMax || numbers_ != nullptr) return Refuse();
    ++depth_;
    return true;
  }
  bool key(std::string& key) override {
    if (depth_ == 1) return BeginEntry(std::move(key));
    key_ = std::move(key);
    return keys_.insert(key_).second || Refuse();
  }
  bool end_object() override {
    --depth_;
    return depth_ == 0 || in_metadata_ || EndTensor();
  }
  bool string(std::string& text) override {
    if (depth_ != kDepthMax || numbers_ != nullptr) return Refuse();
    if (in_metadata_) {
      file_->metadata[key_] = std::move(text);
      return true;
    }
    if (key_ != "dtype") return Refuse();
    file_->tensors.back().dtype = std::move(text);
    return true;
  }
  bool start_array(std::size_t /*count*/) override {
    if (depth_ != kDepthMax || in_metadata_ || numbers_ != nullptr) return Refuse();
    if (key_ == "shape") numbers_ = &file_->tensors.back().shape;
    if (key_ == "data_offsets") numbers_ = &offsets_;
    return numbers_ != nullptr || Refuse();
  }
  bool number_unsigned(std::uint64_t number) override {
    if (numbers_ == nullptr) return Refuse();
    numbers_->push_back(number);
    return true;
  }
  bool end_array() override {
    numbers_ = nullptr;
    return true;
  }
  bool null() override { return Refuse(); }
  bool boolean(bool /*value*/) override { return Refuse(); }
  bool number_integer(std::int64_t /*negative*/) override { return Refuse(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return Refuse(); }
  bool binary(Json::binary_t& /*value*/) override { return Refuse(); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    status_ = Corrupt("the header is malformed at byte " + std::to_string(position));
    return false;
  }

 private:
  static constexpr int kDepthMax = 2;  // of objects: the header, and an entry in it

  bool BeginEntry(std::string name) {
    name_ = std::move(name);
    if (!names_.insert(name_).second) {
      status_ = Corrupt("two entries are named \"" + name_ + "\"");
      return false;
    }
    in_metadata_ = name_ == kMetadata;
    if (!in_metadata_) file_->tensors.push_back({name_, {}, {}});
    keys_.clear();
    offsets_.clear();
    return true;
  }
  bool EndTensor() {
    if (keys_.size() != 3 || offsets_.size() != 2) return Refuse();
    file_->tensors.back().begin = offsets_[0];
    file_->tensors.back().end = offsets_[1];
    return true;
  }
  bool Refuse() {
    status_ = in_metadata_ ? Corrupt("the header's metadata must be texts, each with a name of its own")
                           : Corrupt("tensor \"" + name_ +
                                     "\" must have a dtype, a shape and two data_offsets, each once, and nothing else");
    return false;
  }

  SafetensorsFile* const file_;
  Status status_;
  int depth_ = 0;
  std::set<std::string> names_;  // of entries
  std::string name_;             // of the entry that is being read
  bool in_metadata_ = false;
  std::set<std::string> keys_;  // of this entry
  std::string key_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t>* numbers_ = nullptr;  // the list that is being read, if any
};

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

// ---- writing -------------------------------------------------------------------------------------------------------

std::string LengthBytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

// Prints JSON without spaces. Throws nothing: bytes that are not UTF-8 are replaced.
std::string Compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

// Puts the outer JSON object together by hand: the library's ordered object compares each new name with all before it.
std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata) {
  Json about = {{"format", "pt"}};
  for (const auto& [key, value] : metadata) about[key] = value;
  std::string json = "{" + Compact(kMetadata) + ":" + Compact(about);
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = offset + tensor.ElementCount() * sizeof(float);
    const Json entry = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    json += "," + Compact(tensor.name) + ":" + Compact(entry);
    offset = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  return LengthBytes(json.size()) + json;
}

Result<SafetensorsFile> ParseSafetensorsHeader(std::string_view header, std::uint64_t data_bytes) {
  if (!header.starts_with('{')) return Corrupt("the header does not begin with {");
  if (!IsUtf8(header)) return Corrupt("the header is not UTF-8");
  SafetensorsFile file;
  SafetensorsReader reader(&file);
  if (!Json::sax_parse(header, &reader)) return reader.status();
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CAPSTAN_RETURN_IF_ERROR(CheckLayout(file.tensors, data_bytes));
  return file;
}

}  // namespace capstan
