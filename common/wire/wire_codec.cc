#include "common/wire/wire_codec.h"

#include <capnp/message.h>
#include <kj/exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/utf8.h"
#include "common/wire/message_fields.h"
#include "common/wire/messages.h"
#include "common/wire/staged_runs.h"
#include "schema/wire.capnp.h"

namespace capstan {
namespace {

constexpr std::size_t kWordBytes = sizeof(capnp::word);
constexpr std::size_t kScratchWords = 256;  // headers up to this size are built and read on the stack
constexpr int kNestingMax = 16;

// Keeps the first fault of a header. Its methods check one part each, and return a faulty part as empty.
class Faults {
 public:
  const std::string& first() const { return first_; }

  unsigned Count(std::size_t count, std::size_t max, const char* field) {
    if (count <= max) return static_cast<unsigned>(count);
    NoteSize(field, count, "entries", max);
    return 0;
  }
  std::string_view Bytes(std::string_view bytes, std::size_t max, const char* field) {
    if (bytes.size() <= max) return bytes;
    NoteSize(field, bytes.size(), "bytes", max);
    return {};
  }
  std::string_view Text(std::string_view text, std::size_t max, const char* field) {
    text = Bytes(text, max, field);
    if (IsUtf8(text)) return text;
    Note(Quoted(field) + " is not UTF-8 text");
    return {};
  }
  template <class Out, class In>
  Out Enum(In value, const char* field) {
    if (static_cast<unsigned>(value) <= static_cast<unsigned>(LastOf(Out()))) return static_cast<Out>(value);
    Note(Quoted(field) + " has the unknown value " + std::to_string(static_cast<unsigned>(value)));
    return Out{};
  }
  void Note(std::string what) {
    if (first_.empty()) first_ = std::move(what);
  }

 private:
  // Returns the field's name for a message, with a small first letter as in the schema.
  static std::string Quoted(std::string_view title) {
    std::string name(title);
    name[0] = static_cast<char>(name[0] - 'A' + 'a');
    return "the field \"" + name + "\"";
  }
  void NoteSize(const char* field, std::size_t size, const char* unit, std::size_t max) {
    Note(Quoted(field) + " has " + std::to_string(size) + " " + unit + ", at most " + std::to_string(max) +
         " are allowed");
  }

  std::string first_;
};

// A member that is one number, flag or enumerant in the schema.
template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// ---- out -----------------------------------------------------------------------------------------------------------

capnp::Text::Reader ToText(std::string_view text) { return {text.empty() ? "" : text.data(), text.size()}; }

capnp::Data::Reader ToData(std::string_view bytes) {
  return {reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()};
}

template <class T>
inline constexpr bool kIsNumber = false;
template <class Tag>
inline constexpr bool kIsNumber<Number<Tag>> = true;

// Writes the fields of a struct to its builder.
template <class Builder>
class FieldWriter {
 public:
  FieldWriter(Builder out, Faults* faults) : out_(out), faults_(*faults) {}

  template <Scalar T, class Field>
  void operator()(const T& value, const Field& field) {
    field.Set(out_, static_cast<decltype(field.Get(out_))>(value));
  }
  template <class Field>
  void operator()(bool value, const Field& field, form::Negated) {
    field.Set(out_, !value);
  }
  template <class Tag, class Field>
  void operator()(const Number<Tag>& number, const Field& field) {
    field.Set(out_, number.value);
  }
  template <class Part>
  void operator()(const Part& part) {
    Fields(*this, part);
  }
  template <class Part, class Field>
  requires std::is_class_v<Part>
  void operator()(const Part& part, const Field& field) { WriteFields(part, field.Init(out_), &faults_); }
  template <class Part, class Field>
  void operator()(const std::optional<Part>& part, const Field& field) {
    if (part) (*this)(*part, field);
  }
  template <class Field>
  void operator()(const std::string& text, const Field& field, form::Text form = {}) {
    field.Set(out_, ToText(faults_.Text(text, form.bytes_max, field.title)));
  }
  template <class Field>
  void operator()(const std::string& text, const Field& field, form::UserText) {
    field.Set(out_, ToText(CleanUtf8(text, kTextBytesMax)));
  }
  template <class Field>
  void operator()(const std::string& bytes, const Field& field, form::Bytes form) {
    const std::string_view checked = faults_.Bytes(bytes, form.bytes_max, field.title);
    if (!checked.empty()) field.Set(out_, ToData(checked));
  }
  template <class T, class Field>
  void operator()(const std::vector<T>& list, const Field& field, form::List form = {}) {
    auto to = field.Init(out_, faults_.Count(list.size(), form.entries_max, field.title));
    for (unsigned i = 0; i < to.size(); ++i) {
      if constexpr (Scalar<T>) {
        to.set(i, list[i]);
      } else if constexpr (kIsNumber<T>) {
        to.set(i, list[i].value);
      } else {
        WriteFields(list[i], to[i], &faults_);
      }
    }
  }
  template <class T, class Field>
  void operator()(const std::vector<T>& list, const Field& field, form::OptionalList form) {
    if (!list.empty()) (*this)(list, field, form::List{form.entries_max});
  }
  template <class Field>
  void operator()(const std::vector<StagedNode>& nodes, const Field& field, form::Nodes) {
    faults_.Count(nodes.size(), kStagedNodesMax, field.title);
    (*this)(RunsOf(nodes), field, form::List{kStagedRunsMax});
  }

 private:
  Builder out_;
  Faults& faults_;
};

template <class Struct, class Builder>
void WriteFields(const Struct& from, Builder out, Faults* faults) {
  FieldWriter<Builder> writer(out, faults);
  Fields(writer, from);
}

// ---- in ------------------------------------------------------------------------------------------------------------

std::string_view ToView(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

std::string_view ToView(capnp::Data::Reader bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

// Reads the fields of a struct whose members have their default values.
template <class Reader>
class FieldReader {
 public:
  FieldReader(Reader in, Faults* faults) : in_(in), faults_(*faults) {}

  template <Scalar T, class Field>
  void operator()(T& value, const Field& field) {
    if constexpr (std::is_enum_v<T>) {
      value = faults_.Enum<T>(field.Get(in_), field.title);
    } else {
      value = field.Get(in_);
    }
  }
  template <class Field>
  void operator()(bool& value, const Field& field, form::Negated) {
    value = !field.Get(in_);
  }
  template <class Tag, class Field>
  void operator()(Number<Tag>& number, const Field& field) {
    number.value = field.Get(in_);
  }
  template <class Part>
  void operator()(Part& part) {
    Fields(*this, part);
  }
  template <class Part, class Field>
  requires std::is_class_v<Part>
  void operator()(Part& part, const Field& field) { ReadFields(field.Get(in_), &part, &faults_); }
  template <class Part, class Field>
  void operator()(std::optional<Part>& part, const Field& field) {
    if (field.Has(in_)) (*this)(part.emplace(), field);
  }
  template <class Field>
  void operator()(std::string& text, const Field& field, form::Text form = {}) {
    text = std::string(faults_.Text(ToView(field.Get(in_)), form.bytes_max, field.title));
  }
  template <class Field>
  void operator()(std::string& text, const Field& field, form::UserText) {
    (*this)(text, field);
  }
  template <class Field>
  void operator()(std::string& bytes, const Field& field, form::Bytes form) {
    bytes = std::string(faults_.Bytes(ToView(field.Get(in_)), form.bytes_max, field.title));
  }
  template <class T, class Field>
  void operator()(std::vector<T>& list, const Field& field, form::List form = {}) {
    const auto from = field.Get(in_);
    list.resize(faults_.Count(from.size(), form.entries_max, field.title));
    for (unsigned i = 0; i < list.size(); ++i) {
      if constexpr (Scalar<T>) {
        list[i] = from[i];
      } else if constexpr (kIsNumber<T>) {
        list[i].value = from[i];
      } else {
        ReadFields(from[i], &list[i], &faults_);
      }
    }
  }
  template <class T, class Field>
  void operator()(std::vector<T>& list, const Field& field, form::OptionalList form) {
    (*this)(list, field, form::List{form.entries_max});
  }
  template <class Field>
  void operator()(std::vector<StagedNode>& nodes, const Field& field, form::Nodes) {
    const auto runs = field.Get(in_);
    const unsigned run_count = faults_.Count(runs.size(), kStagedRunsMax, field.title);
    std::size_t node_count = 0;
    for (unsigned i = 0; i < run_count; ++i) node_count += std::size_t{runs[i].getMore()} + 1;
    if (faults_.Count(node_count, kStagedNodesMax, field.title) == 0) return;
    nodes.reserve(node_count);
    for (unsigned i = 0; i < run_count; ++i) {
      StagedRun run;
      ReadFields(runs[i], &run, &faults_);
      for (std::uint32_t k = 0; k <= run.more; ++k) nodes.push_back({run.block + k * run.stride, run.node});
    }
  }

 private:
  Reader in_;
  Faults& faults_;
};

template <class Reader, class Struct>
void ReadFields(Reader in, Struct* to, Faults* faults) {
  FieldReader<Reader> reader(in, faults);
  Fields(reader, *to);
}

template <class T>
T ReadMessage(const wire::Header::Reader& in, Faults* faults) {
  T message;
  ReadFields(HeaderField(&message).Get(in), &message, faults);
  return message;
}

// Reads a message whose type is one of Ts.
template <class... Ts>
struct MessageReader;

template <class T, class... Rest>
struct MessageReader<T, Rest...> {
  static Header Read(const wire::Header::Reader& in, Faults* faults) {
    if (HeaderField(static_cast<const T*>(nullptr)).Is(in)) return ReadMessage<T>(in, faults);
    return MessageReader<Rest...>::Read(in, faults);
  }
};

template <>
struct MessageReader<> {
  static Header Read(const wire::Header::Reader& in, Faults* faults) {
    faults->Note("it is of the unknown kind " + std::to_string(static_cast<unsigned>(in.which())));
    return Ping{};
  }
};

// ---- framing -------------------------------------------------------------------------------------------------------

// Cap'n Proto's own framing of one segment: two numbers, {segments - 1, words of the segment}, then the words.
using SegmentTable = std::array<std::uint32_t, 2>;
static_assert(sizeof(SegmentTable) == kWordBytes);

Status BadHeader(const std::string& why) { return Corrupt("not a header of this protocol: " + why); }

Result<Header> ReadSegment(kj::ArrayPtr<const capnp::word> segment) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * segment.size() + kScratchWords;  // reading each word once needs less than this
  options.nestingLimit = kNestingMax;
  const kj::ArrayPtr<const capnp::word> segments[] = {segment};
  capnp::SegmentArrayMessageReader message(segments, options);
  const auto root = message.getRoot<wire::Header>();
  if (root.getMagic() != kProtocolMagic) return BadHeader("it does not begin with the protocol's mark");
  if (root.getVersion() != kProtocolVersion) {
    return Unsupported("the other side speaks protocol version " + std::to_string(root.getVersion()) +
                       ", this build version " + std::to_string(kProtocolVersion) +
                       "; run the same release everywhere");
  }
  Faults faults;
  Header header = MessageTypes::In<MessageReader>::Read(root, &faults);
  if (!faults.first().empty()) return BadHeader(faults.first());
  return header;
}

// Builds `header` in `message`. Fails if a part of the header is beyond a limit.
Status WriteMessage(const Header& header, capnp::MessageBuilder& message) {
  Faults faults;
  auto root = message.initRoot<wire::Header>();
  root.setMagic(kProtocolMagic);
  root.setVersion(kProtocolVersion);
  std::visit([&](const auto& body) { WriteFields(body, HeaderField(&body).Init(root), &faults); }, header.any());
  return faults.first().empty() ? Status() : Invalid("this message cannot be sent: " + faults.first());
}

std::size_t WordsOf(capnp::MessageBuilder& message) {
  std::size_t words = 0;
  for (const auto& segment : message.getSegmentsForOutput()) words += segment.size();
  return words;
}

void WriteFrame(capnp::MessageBuilder& message, std::vector<std::byte>* out) {
  const auto segments = message.getSegmentsForOutput();
  CAPSTAN_CHECK(segments.size() == 1);
  const auto bytes = segments[0].asBytes();
  const SegmentTable table = {0, static_cast<std::uint32_t>(segments[0].size())};
  out->resize(sizeof table + bytes.size());
  std::memcpy(out->data(), &table, sizeof table);
  std::memcpy(out->data() + sizeof table, bytes.begin(), bytes.size());
}

}  // namespace

Status EncodeHeader(const Header& header, std::vector<std::byte>* out) {
  out->clear();
  std::array<capnp::word, kScratchWords> scratch{};
  capnp::MallocMessageBuilder small(kj::arrayPtr(scratch.data(), scratch.size()));
  CAPSTAN_RETURN_IF_ERROR(WriteMessage(header, small));
  const std::size_t words = WordsOf(small);
  if ((words + 1) * kWordBytes > kHeaderBytesMax) {
    return Invalid("this message cannot be sent: its header takes " + std::to_string(words * kWordBytes) +
                   " bytes, at most " + std::to_string(kHeaderBytesMax) + " are allowed");
  }
  if (small.getSegmentsForOutput().size() == 1) {
    WriteFrame(small, out);
    return {};
  }
  // Builds the message again, now that its size is known: one segment never needs more words than several segments.
  capnp::MallocMessageBuilder large(static_cast<unsigned>(words), capnp::AllocationStrategy::FIXED_SIZE);
  CAPSTAN_RETURN_IF_ERROR(WriteMessage(header, large));
  WriteFrame(large, out);
  return {};
}

Result<Header> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < 2 * kWordBytes || bytes.size() > kHeaderBytesMax || bytes.size() % kWordBytes != 0) {
    return BadHeader(std::to_string(bytes.size()) + " bytes");
  }
  const std::size_t count = bytes.size() / kWordBytes;
  std::array<capnp::word, kScratchWords> scratch;
  std::vector<capnp::word> large(count > kScratchWords ? count : 0);
  capnp::word* words = count > kScratchWords ? large.data() : scratch.data();
  std::memcpy(static_cast<void*>(words), bytes.data(), bytes.size());
  SegmentTable table;
  std::memcpy(&table, words, sizeof table);
  if (table[0] != 0 || table[1] != count - 1) return BadHeader("its length is not the one it states");
  try {
    return ReadSegment(kj::arrayPtr(words + 1, count - 1));
  } catch (const kj::Exception& error) {
    return BadHeader(error.getDescription().cStr());
  }
}

}  // namespace capstan
