// FieldName, the forms of fields, CAPSTAN_FIELD: the words in which part_fields.h and message_fields.h list fields.
//
// Kind:   templates.
// Why:    one line has a member's name, its name in the schema and its form; each visitor takes what it needs from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/wire/messages/limits.h"

namespace capstan {

// Each of these structs says how a member is sent, where the member's type leaves this open.
namespace form {

struct Text {  // UTF-8
  std::size_t bytes_max = kTextBytesMax;
};
struct UserText {};  // a text for users: it is cut and cleaned to fit, never refused
struct Bytes {       // any bytes; an empty value takes no room
  std::size_t bytes_max;
};
struct List {
  std::size_t entries_max = kListEntriesMax;
};
struct OptionalList {  // an empty list takes no room
  std::size_t entries_max = kListEntriesMax;
};
struct Nodes {};    // as StagedRuns
struct Negated {};  // a flag that is true by default

}  // namespace form

enum class Accessor : std::uint8_t { kGet, kHas, kIs, kSet, kInit };
template <Accessor kAccessor>
using Use = std::integral_constant<Accessor, kAccessor>;

// The name of a field in the schema; Access calls the accessors of that name in a reader or builder of Cap'n Proto.
template <class Access>
struct FieldName {
  const char* title;  // such as LossScale
  Access access;

  auto Get(auto in) const { return access(Use<Accessor::kGet>(), in); }
  bool Has(auto in) const { return access(Use<Accessor::kHas>(), in); }
  bool Is(auto in) const { return access(Use<Accessor::kIs>(), in); }
  void Set(auto out, auto value) const { access(Use<Accessor::kSet>(), out, value); }
  auto Init(auto out, auto... size) const { return access(Use<Accessor::kInit>(), out, size...); }
};

template <class Access>
FieldName<Access> NameField(const char* title, Access access) {
  return {title, access};
}

// A macro, because only the preprocessor can make the names of five functions from one word.
#define CAPSTAN_FIELD(Title) \
  NameField(#Title, [](auto use, auto at, auto... values) { \
    if constexpr (use() == Accessor::kGet) return at.get##Title(); \
    if constexpr (use() == Accessor::kHas) return at.has##Title(); \
    if constexpr (use() == Accessor::kIs) return at.is##Title(); \
    if constexpr (use() == Accessor::kSet) return at.set##Title(values...); \
    if constexpr (use() == Accessor::kInit) return at.init##Title(values...); \
  })

// Whether M is Struct or const Struct.
template <class M, class Struct>
concept MaybeConst = std::is_same_v<std::remove_const_t<M>, Struct>;

}  // namespace capstan
