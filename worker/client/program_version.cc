#include "worker/client/program_version.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/hash.h"
#include "common/wire/messages/limits.h"

namespace capstan::client {

namespace {

struct Head {  // what the head begins with
  std::uint64_t state_bytes = 0;
  std::uint64_t hash = 0;
};

constexpr std::uint64_t kInHeadMax = kProgramStateBytesMax - sizeof(Head);

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

ProgramVersion::ProgramVersion(std::uint64_t elements, std::uint32_t arrays)
    : elements_(elements), pool_(elements * sizeof(float)) {
  for (std::uint32_t i = 0; i < arrays; ++i) arrays_.push_back(pool_.Take());
}

std::uint64_t ProgramVersion::bytes_max() const { return kInHeadMax + arrays_.size() * array_bytes(); }

std::vector<float*> ProgramVersion::places() const {
  std::vector<float*> places;
  for (const BufferRef& array : arrays_) places.push_back(array.As<float>());
  return places;
}

std::uint64_t ProgramVersion::HashOf(const float* weights, std::string_view state) const {
  Hasher hasher;
  hasher.Add(std::as_bytes(std::span(weights, elements_)));
  hasher.Add(BytesOf(state));
  return hasher.Digest();
}

Status ProgramVersion::Take(const float* weights, std::string_view head) {
  state_.clear();
  if (head.empty()) return {};
  const auto wrong = [](const std::string& what) {
    return Corrupt("the version that the shards have is not one program's: " + what +
                   "; do all processes run the same program, and does its optimizer compute the same everywhere?");
  };
  Head begin;
  if (head.size() < sizeof begin) return wrong("its state has no length");
  std::memcpy(&begin, head.data(), sizeof begin);
  head.remove_prefix(sizeof begin);
  const std::uint64_t in_head = std::min<std::uint64_t>(begin.state_bytes, kInHeadMax);
  if (begin.state_bytes > bytes_max() || head.size() != in_head) return wrong("its state has another length");
  state_.assign(head);
  std::uint64_t left = begin.state_bytes - in_head;
  state_.reserve(begin.state_bytes);
  for (const BufferRef& array : arrays_) {
    const std::uint64_t here = std::min(left, array_bytes());
    state_.append(reinterpret_cast<const char*>(array->data()), here);
    left -= here;
  }
  if (HashOf(weights, state_) != begin.hash) return wrong("weights and state do not belong together");
  return {};
}

Result<ProgramVersion::Parts> ProgramVersion::Give(const float* weights, std::string_view state) {
  if (state.size() > bytes_max()) {
    return Invalid("the program's state has " + std::to_string(state.size()) + " bytes, and this job keeps at most " +
                   std::to_string(bytes_max()) + ": [optimizer] states = " + std::to_string(arrays_.size()) +
                   " arrays of the weights' size, and " + std::to_string(kInHeadMax) +
                   " bytes; raise states in the job file, or keep less");
  }
  Parts parts;
  const Head begin{state.size(), HashOf(weights, state)};
  const std::string_view in_head = state.substr(0, kInHeadMax);
  parts.head.assign(reinterpret_cast<const char*>(&begin), sizeof begin);
  parts.head += in_head;
  state.remove_prefix(in_head.size());
  BufferRef first = pool_.Take();
  std::memcpy(first->data(), weights, array_bytes());
  parts.arrays.push_back({first, first->data(), array_bytes()});
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    BufferRef array = pool_.Take();
    const std::size_t here = std::min<std::size_t>(state.size(), array_bytes());
    std::memcpy(array->data(), state.data(), here);
    std::memset(array->data() + here, 0, array_bytes() - here);
    state.remove_prefix(here);
    parts.arrays.push_back({array, array->data(), array_bytes()});
  }
  return parts;
}

}  // namespace capstan::client
