// Fields(visitor, message): the fields of the messages of teams. See message_fields.h.
//
// Kind:   templates.
#pragma once

#include "common/wire/field.h"
#include "common/wire/messages.h"
#include "common/wire/messages/team.h"

namespace capstan {

template <class Visitor, MaybeConst<TeamAsk> M>
void Fields(Visitor& v, M& m) {
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.nonce, CAPSTAN_FIELD(Nonce));
  v(m.team, CAPSTAN_FIELD(Team));
  v(m.forming, CAPSTAN_FIELD(Forming));
  v(m.rank, CAPSTAN_FIELD(Rank));
  v(m.ranks, CAPSTAN_FIELD(Ranks));
  v(m.former, CAPSTAN_FIELD(Former));
  v(m.call, CAPSTAN_FIELD(Call));
  v(m.what, CAPSTAN_FIELD(What), form::Text{kTeamTextBytesMax});
  v(m.bytes, CAPSTAN_FIELD(Bytes));
  v(m.received, CAPSTAN_FIELD(Received));
  v(m.again, CAPSTAN_FIELD(Again));
  v(m.question, CAPSTAN_FIELD(Question));
}

template <class Visitor, MaybeConst<TeamGive> M>
void Fields(Visitor& v, M& m) {
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.team, CAPSTAN_FIELD(Team));
  v(m.call, CAPSTAN_FIELD(Call));
  v(m.piece, CAPSTAN_FIELD(Piece));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
}

template <class Visitor, MaybeConst<TeamState> M>
void Fields(Visitor& v, M& m) {
  v(m.team, CAPSTAN_FIELD(Team));
  v(m.forming, CAPSTAN_FIELD(Forming));
  v(m.rank, CAPSTAN_FIELD(Rank));
  v(m.ranks, CAPSTAN_FIELD(Ranks));
  v(m.call, CAPSTAN_FIELD(Call));
  v(m.held, CAPSTAN_FIELD(Held));
  v(m.complete, CAPSTAN_FIELD(Complete));
  v(m.floor, CAPSTAN_FIELD(Floor));
  v(m.wanted, CAPSTAN_FIELD(Wanted));
  v(m.answers, CAPSTAN_FIELD(Answers));
  v(m.failure, CAPSTAN_FIELD(Failure));
  v(m.message, CAPSTAN_FIELD(Message), form::UserText{});
  v(m.waiting, CAPSTAN_FIELD(Waiting));
}

template <class Visitor, MaybeConst<TeamPiece> M>
void Fields(Visitor& v, M& m) {
  v(m.team, CAPSTAN_FIELD(Team));
  v(m.call, CAPSTAN_FIELD(Call));
  v(m.rank, CAPSTAN_FIELD(Rank));
  v(m.piece, CAPSTAN_FIELD(Piece));
  v(m.bytes, CAPSTAN_FIELD(Bytes));
  v(m.floor, CAPSTAN_FIELD(Floor));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
}

}  // namespace capstan
