// Every message of the protocol, as plain structs that the cores exchange, whatever the transport.
//
// Kind:   values.
// Limits: message_fields.h and part_fields.h have a limit for every list and text.
// Why:    a push is identified by (generation, step, node, block); its sender decides only whether it is taken. Most
//         messages of a shard carry its incarnation, and most of the coordinator its term. So a message from before the
//         sender's restart is recognised and dropped. docs/explanation/design/protocol.md has the rules.
#pragma once

#include <cstddef>
#include <type_traits>
#include <variant>

#include "common/wire/message.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/mesh.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/step_parameters.h"
#include "common/wire/messages/team.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"

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
    TypeList<Ping, Reset, Commit, Redo, ClockUpdate, Pin, RetainedSnapshots, Shutdown, Prepared, Committed, Hello,
             ResetDone, ResetBad, Progress, SnapshotDone, Join, View, Heartbeat, Leave, Push, EndSlot, CoverageQuery,
             Staged, Pull, Weights, UploadBlock, UploadAck, Published, Fetch, Fetched, Error, LiveSessions,
             Disagreement, MeshPiece, MeshGrant, MeshControl, TeamAsk, TeamGive, TeamState, TeamPiece>;

using MessageVariant = MessageTypes::In<std::variant>;

struct AnyMessage : MessageVariant {
  using MessageVariant::variant;
};

}  // namespace capstan
