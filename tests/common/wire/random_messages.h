// RandomHeader, Same: a message of any kind with random contents, and the comparison of two messages.
#pragma once

#include <type_traits>
#include <variant>

#include "common/wire/message_fields.h"
#include "common/wire/messages.h"
#include "tests/common/wire/random_fields.h"

namespace capstan {

template <class Visitor, MaybeConst<StagedNode> M>  // on the wire it is part of a StagedRun
void Fields(Visitor& v, M& m) {
  v(m.block);
  v(m.node);
}

}  // namespace capstan

namespace capstan::testing {

template <std::size_t kKind = 0, class Random>
Header RandomHeader(std::size_t kind, Random& random) {
  if constexpr (kKind < std::variant_size_v<MessageVariant>) {
    if (kind != kKind) return RandomHeader<kKind + 1>(kind, random);
    std::variant_alternative_t<kKind, MessageVariant> message;
    Fill(message, random);
    return message;
  } else {
    return Ping{};
  }
}

inline bool Same(const Header& a, const Header& b) {
  if (a.any().index() != b.any().index()) return false;
  return std::visit([&](auto& message) { return Same(message, b.Get<std::decay_t<decltype(message)>>()); }, a.any());
}

}  // namespace capstan::testing
