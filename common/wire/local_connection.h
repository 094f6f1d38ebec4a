// TuneLocalConnection: switches a TCP connection within one machine to congestion control without pacing.
//
// Kind:   pure apart from the socket.
// Why:    congestion control that paces (BBR) sets a timer for every few packets to protect the network. Between two
//         processes of one machine there is no network, and the timers took half of a transfer's processor time.
#pragma once

namespace capstan {

// Tunes the socket `descriptor` if it is a TCP connection whose ends have the same IP address. Leaves any other socket
// unchanged.
void TuneLocalConnection(int descriptor);

}  // namespace capstan
