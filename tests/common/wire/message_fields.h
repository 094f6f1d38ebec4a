// Fields(message), for Fill and Same; RandomHeader.
#pragma once

#include <tuple>
#include <type_traits>
#include <variant>

#include "common/wire/messages.h"
#include "tests/common/wire/fields.h"

namespace capstan {

// clang-format off
inline auto Fields(Node& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(PrepareReport& m) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
inline auto Fields(ShardAddress& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(Ping& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(Reset::Source& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(Reset& m) { auto& [a, b, c, d, e, f, g, h, i, j] = m; return std::tie(a, b, c, d, e, f, g, h, i, j); }
inline auto Fields(Pin& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(SnapshotsKept& m) { auto& [a, b, c, d] = m; return std::tie(a, b, c, d); }
inline auto Fields(SnapshotDone& m) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
inline auto Fields(Fetch& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(Fetched& m) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
inline auto Fields(Commit& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(Redo& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(Rates& m) { auto& [a, b, c, d] = m; return std::tie(a, b, c, d); }
inline auto Fields(Shutdown& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(Prepared& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(Committed& m) { auto& [a, b, c, d] = m; return std::tie(a, b, c, d); }
inline auto Fields(Hello& m) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o); }
inline auto Fields(ResetDone& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(ResetBad& m) { auto& [a, b, c, d] = m; return std::tie(a, b, c, d); }
inline auto Fields(Progress& m) { auto& [a, b, c, d, e] = m; return std::tie(a, b, c, d, e); }
inline auto Fields(Join& m) { auto& [a, b, c, d, e, f, g, h, i, j, k] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
inline auto Fields(GroupMember& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(View& m) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q, r, s, t] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q, r, s, t); }
inline auto Fields(Beat& m) { auto& [a, b, c, d, e, f, g, h, i, j, k] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
inline auto Fields(Leave& m) { auto& [a, b, c] = m; return std::tie(a, b, c); }
inline auto Fields(Push& m) { auto& [a, b, c, d, e, f, g, h, i, j, k] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
inline auto Fields(Assign& m) { auto& [a, b, c, d, e, f, g] = m; return std::tie(a, b, c, d, e, f, g); }
inline auto Fields(Assigned& m) { auto& [a, b, c, d, e] = m; return std::tie(a, b, c, d, e); }
inline auto Fields(EndSlot& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(CoverageQuery& m) { auto& [a, b, c, d, e, f] = m; return std::tie(a, b, c, d, e, f); }
inline auto Fields(Staged::Entry& m) { auto& [a, b] = m; return std::tie(a, b); }
inline auto Fields(Staged& m) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o); }
inline auto Fields(Pull& m) { auto& [a, b, c, d, e, f, g, h, i] = m; return std::tie(a, b, c, d, e, f, g, h, i); }
inline auto Fields(Published& m) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, n] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n); }
inline auto Fields(Weights& m) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o] = m; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o); }
inline auto Fields(Error& m) { auto& [a, b, c, d, e, f, g] = m; return std::tie(a, b, c, d, e, f, g); }
// clang-format on

inline unsigned CountOf(StepAction) { return 2; }
inline unsigned CountOf(JobPhase) { return 4; }
inline unsigned CountOf(GroupState) { return 5; }
inline unsigned CountOf(Code) { return 9; }

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

inline bool Same(Header& a, Header& b) {
  if (a.any().index() != b.any().index()) return false;
  return std::visit([&](auto& message) { return Same(message, std::get<std::decay_t<decltype(message)>>(b.any())); },
                    a.any());
}

}  // namespace capstan::testing
