// HostileMessages: well-formed messages of every kind with random contents, as an attacker might send them.
//
// Kind:   pure functions of a random stream.
// Why:    messages of purely random numbers fail the first check. Tamed messages get further: some of their numbers,
//         and the lengths of some of their lists, are those of the job under attack.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "common/base/hash.h"
#include "tests/common/wire/random_messages.h"

namespace capstan::testing {

// Numbers of the job under attack.
struct Plausible {
  std::uint64_t number = 1;  // for terms, generations, steps, versions, sessions
  std::vector<std::uint64_t> incarnations;
  std::vector<std::size_t> lengths;   // of lists
  std::vector<std::size_t> payloads;  // bytes
  JobId job;
};

// `Random` is RandomStream, or another source of numbers with Below, Next and Next64.
template <class Random>
class HostileMessagesFrom {
 public:
  HostileMessagesFrom(Random random, Plausible plausible)
      : random_(std::move(random)), plausible_(std::move(plausible)) {}

  Random& random() { return random_; }
  bool Chance(std::uint64_t percent) { return random_.Below(100) < percent; }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[random_.Below(from.size())];
  }

  // Makes a message of any kind. All fields are random, and then tamed to a random degree.
  Message Make() {
    Header header = RandomHeader(random_.Below(std::variant_size_v<MessageVariant>), random_);
    static constexpr std::uint64_t kDegrees[] = {0, 50, 90, 100};
    percent_ = kDegrees[random_.Below(4)];
    std::visit([&](auto& body) { Tame(body); }, header.any());
    return WithPayload(std::move(header));
  }
  // Returns `header`, a correct message, with one field replaced and a random payload.
  Message Spoil(Header header) {
    std::visit(
        [&](auto& body) {
          FieldCounter counter;
          Fields(counter, body);
          FieldReplacer replacer{*this, random_.Below(counter.count)};
          percent_ = random_.Below(2) * 90;
          Fields(replacer, body);
        },
        header.any());
    return WithPayload(std::move(header));
  }
  // Adds a random payload. A payload_hash in the header mostly matches it.
  Message WithPayload(Header header) {
    Message message{std::move(header), {}};
    const std::size_t size = Chance(80) ? Pick(plausible_.payloads) : random_.Below(100);
    if (size > 0) {
      BufferRef buffer = pool_.Take();
      for (std::size_t i = 0; i < size; ++i) buffer->data()[i] = static_cast<std::byte>(random_.Next());
      const std::byte* data = buffer->data();
      message.payload = {std::move(buffer), data, size};
    }
    const std::uint64_t hash = Hash64(message.payload.bytes());
    message.header.template VisitAs<Push, UploadBlock, Weights, Fetched>([&](auto& body) {
      if (Chance(90)) body.payload_hash = hash;
    });
    return message;
  }

 private:
  struct FieldCounter {
    std::size_t count = 0;
    void operator()(auto&, const auto&...) { ++count; }
  };
  struct FieldReplacer {
    HostileMessagesFrom& messages;
    std::size_t chosen;
    std::size_t index = 0;
    void operator()(auto& field, const auto&...) {
      if (index++ != chosen) return;
      Fill(field, messages.random_);
      messages.Tame(field);
    }
  };
  struct FieldTamer {
    HostileMessagesFrom& messages;
    void operator()(auto& field, const auto&...) { messages.Tame(field); }
  };
  void Tame(Incarnation& number) {
    if (Chance(percent_)) number = {Pick(plausible_.incarnations)};
  }
  template <class Tag>
  void Tame(Number<Tag>& number) {
    if (Chance(percent_)) number = {plausible_.number + random_.Below(3) - 1};
  }
  void Tame(JobId& job) {
    if (Chance(percent_)) job = Chance(50) ? plausible_.job : JobId{};
  }
  void Tame(std::string&) {}
  template <class T>
  void Tame(std::vector<T>& list) {
    if (Chance(percent_)) {
      const std::size_t before = list.size();
      list.resize(Pick(plausible_.lengths));
      for (std::size_t i = before; i < list.size(); ++i) Fill(list[i], random_);
    }
    for (T& element : list) Tame(element);
  }
  template <class T>
  void Tame(std::optional<T>& value) {
    if (value) Tame(*value);
  }
  template <class T>
  void Tame(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (Chance(percent_)) value = static_cast<T>(random_.Below(7));
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (Chance(percent_)) value = static_cast<T>(random_.Below(5));
    } else if constexpr (std::is_class_v<T>) {
      FieldTamer tamer{*this};
      Fields(tamer, value);
    }
  }

  Random random_;
  const Plausible plausible_;
  std::uint64_t percent_ = 0;
  BufferPool pool_{128};
};

class HostileMessages : public HostileMessagesFrom<RandomStream> {
 public:
  HostileMessages(std::uint64_t seed, Plausible plausible)
      : HostileMessagesFrom(RandomStream(seed, 77), std::move(plausible)) {}
};

}  // namespace capstan::testing
