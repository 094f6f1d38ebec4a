#include "worker/collective/text_rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace capstan::collective {

namespace {

// A text as the group carries it, in the memory of floats; the group copies them without change.
struct Card {
  std::uint32_t size = 0;
  std::array<char, TextRendezvous::kTextMax> text{};
};
using CardFloats = std::array<float, sizeof(Card) / sizeof(float)>;
static_assert(sizeof(Card) == sizeof(CardFloats));

}  // namespace

Result<std::vector<std::string>> TextRendezvous::Exchange(int, std::string text, Deadline deadline) {
  Card card;
  card.size = static_cast<std::uint32_t>(std::min(text.size(), kTextMax));
  std::memcpy(card.text.data(), text.data(), card.size);
  CardFloats mine;
  std::memcpy(mine.data(), &card, sizeof(card));
  std::vector<float> all(static_cast<std::size_t>(group_.size()) * mine.size());
  CAPSTAN_RETURN_IF_ERROR(group_.Gather(mine, 0, all, deadline));
  CAPSTAN_RETURN_IF_ERROR(group_.Broadcast(all, 0, deadline));
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size(); begin += mine.size()) {
    std::memcpy(static_cast<void*>(&card), all.data() + begin, sizeof(card));
    texts.emplace_back(card.text.data(), std::min<std::size_t>(card.size, kTextMax));
  }
  return texts;
}

}  // namespace capstan::collective
