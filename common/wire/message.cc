#include "common/wire/message.h"

#include <utility>

#include "common/wire/messages.h"

namespace capstan {

template <class T>
Header::Header(T message) : message_(std::make_unique<AnyMessage>(std::move(message))) {}

Header::Header(AnyMessage message) : message_(std::make_unique<AnyMessage>(std::move(message))) {}
Header::Header(const Header& other)
    : message_(other.message_ == nullptr ? nullptr : std::make_unique<AnyMessage>(*other.message_)) {}
Header::Header(Header&& other) noexcept = default;
Header& Header::operator=(const Header& other) { return *this = Header(other); }
Header& Header::operator=(Header&& other) noexcept = default;
Header::~Header() = default;

template <class T>
T* Header::Find() const {
  return message_ == nullptr ? nullptr : std::get_if<T>(message_.get());
}

template Header::Header(Ping);
template Ping* Header::Find() const;
template Header::Header(Reset);
template Reset* Header::Find() const;
template Header::Header(Commit);
template Commit* Header::Find() const;
template Header::Header(Redo);
template Redo* Header::Find() const;
template Header::Header(ClockUpdate);
template ClockUpdate* Header::Find() const;
template Header::Header(Pin);
template Pin* Header::Find() const;
template Header::Header(RetainedSnapshots);
template RetainedSnapshots* Header::Find() const;
template Header::Header(Shutdown);
template Shutdown* Header::Find() const;
template Header::Header(Prepared);
template Prepared* Header::Find() const;
template Header::Header(Committed);
template Committed* Header::Find() const;
template Header::Header(Hello);
template Hello* Header::Find() const;
template Header::Header(ResetDone);
template ResetDone* Header::Find() const;
template Header::Header(ResetBad);
template ResetBad* Header::Find() const;
template Header::Header(Progress);
template Progress* Header::Find() const;
template Header::Header(SnapshotDone);
template SnapshotDone* Header::Find() const;
template Header::Header(Join);
template Join* Header::Find() const;
template Header::Header(View);
template View* Header::Find() const;
template Header::Header(Heartbeat);
template Heartbeat* Header::Find() const;
template Header::Header(Leave);
template Leave* Header::Find() const;
template Header::Header(Push);
template Push* Header::Find() const;
template Header::Header(EndSlot);
template EndSlot* Header::Find() const;
template Header::Header(CoverageQuery);
template CoverageQuery* Header::Find() const;
template Header::Header(Staged);
template Staged* Header::Find() const;
template Header::Header(Pull);
template Pull* Header::Find() const;
template Header::Header(Weights);
template Weights* Header::Find() const;
template Header::Header(UploadBlock);
template UploadBlock* Header::Find() const;
template Header::Header(UploadAck);
template UploadAck* Header::Find() const;
template Header::Header(Published);
template Published* Header::Find() const;
template Header::Header(Fetch);
template Fetch* Header::Find() const;
template Header::Header(Fetched);
template Fetched* Header::Find() const;
template Header::Header(MeshPiece);
template MeshPiece* Header::Find() const;
template Header::Header(MeshGrant);
template MeshGrant* Header::Find() const;
template Header::Header(MeshControl);
template MeshControl* Header::Find() const;
template Header::Header(TeamAsk);
template TeamAsk* Header::Find() const;
template Header::Header(TeamGive);
template TeamGive* Header::Find() const;
template Header::Header(TeamState);
template TeamState* Header::Find() const;
template Header::Header(TeamPiece);
template TeamPiece* Header::Find() const;
template Header::Header(Error);
template Error* Header::Find() const;
template Header::Header(LiveSessions);
template LiveSessions* Header::Find() const;
template Header::Header(Disagreement);
template Disagreement* Header::Find() const;

}  // namespace capstan
