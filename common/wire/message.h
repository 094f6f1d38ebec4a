// Header, Message, Envelope: any message of the protocol, for code that only passes messages on.
//
// Kind:   values. A moved-from Header holds no message; any() and Get() must not be called on it.
// Why:    code that reads or writes a message includes that message's header in common/wire/messages/, and
//         common/wire/messages.h includes them all. This header names no message, so a new message rebuilds few
//         sources.
#pragma once

#include <memory>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

struct AnyMessage;  // the variant of all messages, in common/wire/messages.h

// T, Ts: messages of common/wire/messages.h; with another type the program does not link.
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

  // Returns the message if it is a T, and null otherwise.
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
  // Returns the message. Requires that it is a T.
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

  // Calls visit(message) if the message is one of Ts. Returns whether it is.
  template <class... Ts, class Visit>
  bool VisitAs(Visit visit) const {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }
  template <class... Ts, class Visit>
  bool VisitAs(Visit visit) {
    return ((Is<Ts>() && (visit(*As<Ts>()), true)) || ...);
  }

  // The variant of all messages. Code that uses it includes common/wire/messages.h.
  const AnyMessage& any() const { return *message_; }
  AnyMessage& any() { return *message_; }

 private:
  // Returns the message if it is a T, and null otherwise.
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
