// Header, Message, Envelope: one of the protocol's messages, for all that only carry it.
//
// Kind:   values. One that was moved from holds no message: it is none of them, and any() and Get() are forbidden.
// Why:    a message's struct is seen by those that write or read it, each with the include of its header in
//         common/wire/messages/. All of them together are in common/wire/messages.h: this header names none, so that a new one
//         rebuilds few sources.
#pragma once

#include <memory>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

struct AnyMessage;  // the variant of them, in common/wire/messages.h

// T, Ts: messages of common/wire/messages.h; another type does not link.
class Header {
 public:
  template <class T>
  Header(T message);
  explicit Header(AnyMessage message);
  Header(const Header& other);
  Header(Header&& other) noexcept;
  Header& operator=(const Header& other);
  Header& operator=(Header&& other) noexcept;
  ~Header();

  // Null: it is another message.
  template <class T>
  const T* As() const {
    return Find<T>();
  }
  template <class T>
  T* As() {
    return Find<T>();
  }
  template <class T>
  bool Is() const {
    return As<T>() != nullptr;
  }
  // It is this message.
  template <class T>
  const T& Get() const {
    CAPSTAN_CHECK(Is<T>());
    return *As<T>();
  }
  template <class T>
  T& Get() {
    CAPSTAN_CHECK(Is<T>());
    return *As<T>();
  }

  // Calls visit(message) where it is one of these; whether it was.
  template <class... Ts, class Visit>
  bool VisitAs(Visit visit) const {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }
  template <class... Ts, class Visit>
  bool VisitAs(Visit visit) {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }

  // All of them: with the include of common/wire/messages.h.
  const AnyMessage& any() const { return *message_; }
  AnyMessage& any() { return *message_; }

 private:
  // Null: it is another message.
  template <class T>
  T* Find() const;

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
