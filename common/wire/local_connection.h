// TuneLocalConnection: takes a TCP connection within one machine out of congestion control.
//
// Kind:   pure but for the socket.
// Why:    congestion control that paces (BBR) arms a timer for every few packets, which protects networks. Between two
//         processes of one machine there is none, and the timers were half of the processor time of a transfer.
#pragma once

namespace capstan {

// `descriptor`: any socket; one that is not such a connection stays as it is.
void TuneLocalConnection(int descriptor);

}  // namespace capstan
