// Every message of the protocol, as plain structs: what the cores exchange, whatever carries it.
//
// Kind:   values.
// Limits: the codec (wire_codec.h) bounds every list and text.
// Why:    PROTOCOL.md 3 and 4. A push is named by (generation, step, node, block), never by who sent it; a shard's word
//         carries its incarnation, a coordinator's its term, so that nothing from another life is believed.
#pragma once

#include <variant>

#include "common/message.h"
#include "common/messages/commit.h"
#include "common/messages/error.h"
#include "common/messages/fetch.h"
#include "common/messages/fetched.h"
#include "common/messages/group.h"
#include "common/messages/group_state.h"
#include "common/messages/limits.h"
#include "common/messages/membership.h"
#include "common/messages/pull.h"
#include "common/messages/pushes.h"
#include "common/messages/shard_orders.h"
#include "common/messages/shard_reports.h"
#include "common/messages/slot_report.h"
#include "common/messages/snapshot_done.h"
#include "common/messages/snapshot_id.h"
#include "common/messages/staged.h"
#include "common/messages/step_parameters.h"
#include "common/messages/weights.h"

namespace capstan {

using MessageVariant = MessageTypes::In<std::variant>;

struct AnyMessage : MessageVariant {
  using MessageVariant::variant;
};

}  // namespace capstan
