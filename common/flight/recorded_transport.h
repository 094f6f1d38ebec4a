// RecordTransport: a transport that notes in a lane which messages it receives and sends.
//
// Kind:   owned by its actor's thread, as the transport that it wraps.
// Why:    every message passes a transport, so the loops and the cores need no code for most of the recorder's events.
#pragma once

#include <memory>

#include "common/flight/flight_lane.h"
#include "common/wire/transport.h"

namespace capstan {

// `lane` outlives the transport. Null: returns `transport` itself.
std::unique_ptr<Transport> RecordTransport(std::unique_ptr<Transport> transport, FlightLane* lane);

}  // namespace capstan
