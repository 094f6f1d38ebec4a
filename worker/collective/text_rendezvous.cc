#include "worker/collective/text_rendezvous.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace capstan::collective {

namespace {

// A text as the group carries it: its bytes lie in an array of floats, which Gather and Broadcast copy without change.
struct TextBlock {
  std::uint32_t size = 0;
  std::array<char, TextRendezvous::kTextMax> text{};
};
using TextBlockFloats = std::array<float, sizeof(TextBlock) / sizeof(float)>;
static_assert(sizeof(TextBlock) == sizeof(TextBlockFloats));

}  // namespace

Result<std::vector<std::string>> TextRendezvous::Exchange(int, std::string text, Deadline deadline) {
  TextBlock text_block;
  text_block.size = static_cast<std::uint32_t>(std::min(text.size(), kTextMax));
  std::memcpy(text_block.text.data(), text.data(), text_block.size);
  TextBlockFloats mine;
  std::memcpy(mine.data(), &text_block, sizeof(text_block));
  std::vector<float> all(static_cast<std::size_t>(group_.size()) * mine.size());
  CAPSTAN_RETURN_IF_ERROR(group_.Gather(mine, 0, all, deadline));
  CAPSTAN_RETURN_IF_ERROR(group_.Broadcast(all, 0, deadline));
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size(); begin += mine.size()) {
    std::memcpy(static_cast<void*>(&text_block), all.data() + begin, sizeof(text_block));
    texts.emplace_back(text_block.text.data(), std::min<std::size_t>(text_block.size, kTextMax));
  }
  return texts;
}

}  // namespace capstan::collective
