// Header, Message, Envelope: one of the protocol's messages, for all that only carry it.
//
// Kind:   values. One that was moved from holds no message: it is none of them, and any() and Get() are forbidden.
// Why:    a message's struct is seen by those that write or read it, each with the include of its header in
//         common/messages/. All of them together are in common/messages.h.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "common/buffer.h"
#include "common/messages/forward.h"
#include "common/status.h"
#include "common/types.h"

namespace capstan {

template <class... Ts>
struct TypeList {
  template <class T>
  static constexpr bool kHas = (std::is_same_v<T, Ts> || ...);
  template <class T>
  static constexpr std::size_t IndexOf() {
    std::size_t index = 0;
    (void)((std::is_same_v<T, Ts> || (++index, false)) || ...);
    return index;
  }
  template <template <class...> class Template>
  using In = Template<Ts...>;
};

using MessageTypes =
    TypeList<Ping, Reset, Commit, Redo, Rates, Pin, SnapshotsKept, Shutdown, Prepared, Committed, Hello, ResetDone,
             ResetBad, Progress, SnapshotDone, Join, View, Beat, Leave, Push, EndSlot, CoverageQuery, Staged, Pull,
             Weights, Assign, Assigned, Published, Fetch, Fetched, Error>;

template <class T>
concept IsMessage = MessageTypes::kHas<T>;

struct AnyMessage;  // the variant of them, in common/messages.h

class Header {
 public:
  template <IsMessage T>
  Header(T message);
  explicit Header(AnyMessage message);
  Header(const Header& other);
  Header(Header&& other) noexcept;
  Header& operator=(const Header& other);
  Header& operator=(Header&& other) noexcept;
  ~Header();

  // Null: it is another message.
  template <IsMessage T>
  const T* As() const {
    return static_cast<const T*>(Find(MessageTypes::IndexOf<T>()));
  }
  template <IsMessage T>
  T* As() {
    return static_cast<T*>(Find(MessageTypes::IndexOf<T>()));
  }
  template <IsMessage T>
  bool Is() const {
    return As<T>() != nullptr;
  }
  // It is this message.
  template <IsMessage T>
  const T& Get() const {
    CAPSTAN_CHECK(Is<T>());
    return *As<T>();
  }
  template <IsMessage T>
  T& Get() {
    CAPSTAN_CHECK(Is<T>());
    return *As<T>();
  }

  // Calls visit(message) where it is one of these; whether it was.
  template <IsMessage... Ts, class Visit>
  bool VisitAs(Visit visit) const {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }
  template <IsMessage... Ts, class Visit>
  bool VisitAs(Visit visit) {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }

  // All of them: with the include of common/messages.h.
  const AnyMessage& any() const { return *message_; }
  AnyMessage& any() { return *message_; }

 private:
  // The message, where it is the one of this index in MessageTypes.
  void* Find(std::size_t index) const;

  std::unique_ptr<AnyMessage> message_;
};

struct Message {
  Header header;
  Slice payload;
};

struct Envelope {
  PeerId to;
  Message message;
};

}  // namespace capstan
