#include "worker/train/replica/group_rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace capstan::train {

namespace {

constexpr auto kLookUp = std::chrono::milliseconds(20);

// A text as a group carries it: the numbers are not looked at on their way.
struct Card {
  std::uint32_t size = 0;
  std::array<char, GroupRendezvous::kTextMax> text{};
};
using CardFloats = std::array<float, sizeof(Card) / sizeof(float)>;
static_assert(sizeof(Card) == sizeof(CardFloats));

struct Cards {
  CardFloats mine;
  std::vector<float> all;
};

}  // namespace

Result<std::vector<std::string>> GroupRendezvous::Exchange(int, std::string text, collective::Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(failure_);
  Card card;
  card.size = static_cast<std::uint32_t>(std::min(text.size(), kTextMax));
  std::memcpy(card.text.data(), text.data(), card.size);
  // Kept by the work too: whoever gives up leaves it to the group.
  const auto cards = std::make_shared<Cards>();
  std::memcpy(cards->mine.data(), &card, sizeof(card));
  cards->all.resize(static_cast<std::size_t>(group_->size()) * cards->mine.size());
  const auto pass = [cards, deadline](collective::Group& members) {
    CAPSTAN_RETURN_IF_ERROR(members.Gather(cards->mine, 0, cards->all, deadline));
    return members.Broadcast(cards->all, 0, deadline);
  };
  const auto ticket = group_->Submit(pass);
  failure_ = ticket.ok() ? Await(*ticket) : ticket.status();
  CAPSTAN_RETURN_IF_ERROR(failure_);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < cards->all.size(); begin += cards->mine.size()) {
    std::memcpy(static_cast<void*>(&card), cards->all.data() + begin, sizeof(card));
    texts.emplace_back(card.text.data(), std::min<std::size_t>(card.size, kTextMax));
  }
  return texts;
}

Status GroupRendezvous::Await(collective::CollectiveThread::Ticket ticket) const {
  for (;;) {
    const Status status = group_->Wait(ticket, std::chrono::steady_clock::now() + kLookUp);
    if (status.code() != Code::kBusy) return status;
    CAPSTAN_RETURN_IF_ERROR(look_up_());
  }
}

}  // namespace capstan::train
