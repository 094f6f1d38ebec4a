#include "common/flight/message_facts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <variant>

#include "common/base/hash.h"
#include "common/wire/messages.h"

namespace capstan {
namespace {

using Rare = TypeList<Reset, ResetDone, ResetBad, Pin, RetainedSnapshots, LiveSessions, Shutdown, Join, Leave, Error,
                      Disagreement, SnapshotDone>;
// Their field `shard` names the sender.
using OfShard =
    TypeList<Hello, Prepared, Committed, ResetDone, ResetBad, Progress, SnapshotDone, Disagreement, Staged, UploadAck>;

// Returns the name that the compiler has for a type, without its namespace.
template <class T>
constexpr std::string_view NameOfType() {
  constexpr std::string_view kFunction = __PRETTY_FUNCTION__;
  constexpr std::string_view kBefore = "T = capstan::";
  constexpr std::size_t kBegin = kFunction.find(kBefore) + kBefore.size();
  return kFunction.substr(kBegin, kFunction.find_first_of(";]", kBegin) - kBegin);
}

template <class... Ts>
constexpr auto NamesOf(TypeList<Ts...>) {
  return std::array{NameOfType<Ts>()...};
}
constexpr auto kMessageNames = NamesOf(MessageTypes());

std::uint32_t Count(std::size_t count) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

template <class T>
std::uint64_t PositionOf(const T& message) {
  if constexpr (requires { message.step.value; }) return message.step.value;
  if constexpr (requires { message.version.value; }) return message.version.value;
  if constexpr (requires { message.clock.value; }) return message.clock.value;
  if constexpr (requires { message.snapshot.version.value; }) return message.snapshot.version.value;
  return 0;
}

template <class T>
void AddNumbers(const T& message, MessageFacts* facts) {
  if constexpr (requires { message.attempt; }) facts->number = message.attempt;
  if constexpr (requires { message.action; }) facts->code = static_cast<std::uint8_t>(message.action);
}
void AddNumbers(const Pull& pull, MessageFacts* facts) {
  facts->number = Count(pull.blocks.size() + pull.speculative.size());
  facts->adds = true;
}
void AddNumbers(const Staged& staged, MessageFacts* facts) {
  facts->number = Count(staged.nodes.size());
  facts->adds = true;
}
void AddNumbers(const CoverageQuery& query, MessageFacts* facts) {
  facts->number = Count(query.nodes.size());
  facts->adds = true;
}
void AddNumbers(const UploadAck& acknowledged, MessageFacts* facts) {
  facts->number = Count(acknowledged.blocks.size());
  facts->adds = true;
}
void AddNumbers(const View& view, MessageFacts* facts) {
  facts->code = static_cast<std::uint8_t>(view.phase);
  facts->number = Count(view.slots.size());
}
void AddNumbers(const Heartbeat& beat, MessageFacts* facts) {
  facts->code = beat.computing ? 1 : 0;
  facts->number = Count(beat.missing.size());
}
void AddNumbers(const Hello& hello, MessageFacts* facts) {
  facts->code = hello.serving ? 1 : 0;
  facts->number = Count(hello.parts.size());
}
void AddNumbers(const Error& error, MessageFacts* facts) { facts->code = static_cast<std::uint8_t>(error.code); }

std::string NumberText(std::string_view what, std::uint64_t number) {
  return std::string(what) + " " + std::to_string(number);
}
std::string SnapshotText(const SnapshotId& id) {
  return id.IsNone() ? "no snapshot"
                     : NumberText("the snapshot of version", id.version.value) +
                           NumberText(" of generation", id.generation.value);
}

std::string Describe(const Reset& reset) {
  return "serve " + SnapshotText(reset.snapshot) + NumberText(", timeline", reset.timeline.value) +
         NumberText(", term", reset.term.value);
}
std::string Describe(const ResetBad& bad) { return bad.reason; }
std::string Describe(const RetainedSnapshots& retained) {
  return NumberText("snapshots:", retained.ids.size()) + ", settled: " + SnapshotText(retained.settled);
}
std::string Describe(const LiveSessions& live) {
  std::string text = NumberText("sessions that are new or changed:", live.sessions.size());
  for (const LiveSession& session : live.sessions) text += " " + session.worker;
  return text + NumberText("; ended:", live.ended.size());
}
std::string Describe(const Join& join) {
  return "\"" + join.worker + "\"" + (join.catalog.empty() ? " asks for the job file" : " joins");
}
std::string Describe(const Leave& leave) { return leave.reason; }
std::string Describe(const Error& error) { return error.message; }
std::string Describe(const Disagreement& disagreement) { return disagreement.what; }
std::string Describe(const SnapshotDone& done) {
  return done.failure.empty() ? NumberText("bytes:", done.bytes) : done.failure;
}

}  // namespace

MessageFacts FactsOf(const Header& header) {
  return std::visit(
      [&]<class T>(const T& message) {
        MessageFacts facts;
        facts.type = static_cast<std::uint8_t>(MessageTypes::IndexOf<T>());
        if constexpr (requires { message.generation; }) facts.generation = message.generation.value;
        if constexpr (requires { message.session.value; }) facts.session = message.session;
        if constexpr (OfShard::kHas<T>) facts.shard = message.shard;
        facts.position = PositionOf(message);
        facts.rare = Rare::kHas<T>;
        AddNumbers(message, &facts);
        return facts;
      },
      static_cast<const MessageVariant&>(header.any()));
}

std::string TextOf(const Header& header) {
  return std::visit(
      [](const auto& message) -> std::string {
        if constexpr (requires { Describe(message); }) return Describe(message);
        return "";
      },
      static_cast<const MessageVariant&>(header.any()));
}

std::string_view MessageName(std::size_t type) {
  return type < kMessageNames.size() ? kMessageNames[type] : std::string_view();
}

std::uint64_t HashOfMessageTypes() {
  Hasher hasher;
  for (const std::string_view name : kMessageNames) {
    hasher.Add(std::uint64_t{name.size()});
    hasher.Add(name);
  }
  return hasher.Digest();
}

}  // namespace capstan
