#include "common/message.h"

#include <utility>

#include "common/messages.h"

namespace capstan {

template <IsMessage T>
Header::Header(T message) : message_(std::make_unique<AnyMessage>(std::move(message))) {}

Header::Header(AnyMessage message) : message_(std::make_unique<AnyMessage>(std::move(message))) {}
Header::Header(const Header& other)
    : message_(other.message_ == nullptr ? nullptr : std::make_unique<AnyMessage>(*other.message_)) {}
Header::Header(Header&& other) noexcept = default;
Header& Header::operator=(const Header& other) { return *this = Header(other); }
Header& Header::operator=(Header&& other) noexcept = default;
Header::~Header() = default;

void* Header::Find(std::size_t index) const {
  if (message_ == nullptr || message_->index() != index) return nullptr;
  return std::visit([](auto& message) { return static_cast<void*>(&message); }, *message_);
}

template Header::Header(Ping);
template Header::Header(Reset);
template Header::Header(Commit);
template Header::Header(Redo);
template Header::Header(Rates);
template Header::Header(Pin);
template Header::Header(SnapshotsKept);
template Header::Header(Shutdown);
template Header::Header(Prepared);
template Header::Header(Committed);
template Header::Header(Hello);
template Header::Header(ResetDone);
template Header::Header(ResetBad);
template Header::Header(Progress);
template Header::Header(SnapshotDone);
template Header::Header(Join);
template Header::Header(View);
template Header::Header(Beat);
template Header::Header(Leave);
template Header::Header(Push);
template Header::Header(EndSlot);
template Header::Header(CoverageQuery);
template Header::Header(Staged);
template Header::Header(Pull);
template Header::Header(Weights);
template Header::Header(Assign);
template Header::Header(Assigned);
template Header::Header(Published);
template Header::Header(Fetch);
template Header::Header(Fetched);
template Header::Header(Error);

}  // namespace capstan
