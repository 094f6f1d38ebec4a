// Every message of the protocol, as plain structs: what the cores exchange, whatever carries it.
//
// Kind:   values.
// Limits: the codec (wire_codec.h) bounds every list and text.
// Why:    PROTOCOL.md 3 and 4. A push is named by (generation, step, node, block), never by who sent it; a shard's word
//         carries its incarnation, a coordinator's its term, so that nothing from another life is believed.
#pragma once

#include <cstddef>
#include <type_traits>
#include <variant>

#include "common/message.h"
#include "common/messages/assign.h"
#include "common/messages/commit.h"
#include "common/messages/end_slot.h"
#include "common/messages/error.h"
#include "common/messages/fetch.h"
#include "common/messages/fetched.h"
#include "common/messages/group.h"
#include "common/messages/group_state.h"
#include "common/messages/hello.h"
#include "common/messages/limits.h"
#include "common/messages/membership.h"
#include "common/messages/prepared.h"
#include "common/messages/pull.h"
#include "common/messages/push.h"
#include "common/messages/reset.h"
#include "common/messages/shard_address.h"
#include "common/messages/shard_orders.h"
#include "common/messages/shard_reports.h"
#include "common/messages/slot_report.h"
#include "common/messages/snapshot_done.h"
#include "common/messages/snapshot_id.h"
#include "common/messages/staged.h"
#include "common/messages/step_parameters.h"
#include "common/messages/view.h"
#include "common/messages/weights.h"

namespace capstan {

template <class... Ts>
struct TypeList {
  template <class T>
  static constexpr bool kHas = (std::is_same_v<T, Ts> || ...);
  template <class T>
  static constexpr std::size_t IndexOf() {
    std::size_t index = 0;
    (void)((std::is_same_v<T, Ts> || (++index, false)) || ...);
    return index;
  }
  template <template <class...> class Template>
  using In = Template<Ts...>;
};

using MessageTypes =
    TypeList<Ping, Reset, Commit, Redo, Rates, Pin, SnapshotsKept, Shutdown, Prepared, Committed, Hello, ResetDone,
             ResetBad, Progress, SnapshotDone, Join, View, Beat, Leave, Push, EndSlot, CoverageQuery, Staged, Pull,
             Weights, Assign, Assigned, Published, Fetch, Fetched, Error>;

using MessageVariant = MessageTypes::In<std::variant>;

struct AnyMessage : MessageVariant {
  using MessageVariant::variant;
};

}  // namespace capstan
