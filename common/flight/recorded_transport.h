// RecordTransport: a transport that notes in a lane which messages it receives and sends.
//
// Kind:   owned by its actor's thread, as the transport that it wraps.
// Why:    every message passes a transport, so the loops and the cores need no code for most of the recorder's events.
//         A message that its sender's role may not send to this process is only counted: a stranger can name no peer.
#pragma once

#include <cstdint>
#include <memory>

#include "common/flight/flight_lane.h"
#include "common/wire/permissions.h"
#include "common/wire/transport.h"

namespace capstan {

// `receiver`, `shards_per_server`: of this process, as MaySend takes them. `lane` outlives the transport. Null: returns
// `transport` itself.
std::unique_ptr<Transport> RecordTransport(std::unique_ptr<Transport> transport, FlightLane* lane, Receiver receiver,
                                           std::uint32_t shards_per_server = 1);

}  // namespace capstan
