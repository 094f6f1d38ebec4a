// What the functions of <capstan/capstan.h> share: how a call from C is read and answered.
//
// Kind:   pure functions.
// Fails:  kInvalid and kUnsupported, naming the argument or the struct's field.
// Why:    no exception and no type of C++ crosses the border, and what a caller leaves out or sets wrongly is
//         found here.
#pragma once

#include <capstan/capstan.h>
#include <capstan/status.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "worker/client/fork_guard.h"

namespace capstan::client {

inline constexpr double kForeverSeconds = 100.0 * 365 * 24 * 3600;  // what the clock can still count
inline constexpr double kJoinSeconds = 60;
inline constexpr std::size_t kStructBytesMax = 4096;  // more is a size that was not set

inline void CopyText(const char* text, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t length = std::min(std::strlen(text), bytes - 1);
  std::memcpy(to, text, length);
  to[length] = '\0';
}

// Runs `call` at the border: no exception leaves. Ours do not throw, so what arrives is memory or threads running
// short.
template <class Call>
capstan_code Answer(char* error, std::size_t error_bytes, const Call& call) noexcept {
  try {
    const Status status = call();
    if (!status.ok()) CopyText(status.message().c_str(), error, error_bytes);
    return static_cast<capstan_code>(status.code());
  } catch (const std::exception& shortage) {
    CopyText(shortage.what(), error, error_bytes);
  } catch (...) {
    CopyText("an exception of no known kind", error, error_bytes);
  }
  return CAPSTAN_BUSY;
}

// What a caller in C holds: an object of ours, the process that it belongs to, the text of the last call that failed.
template <class Object>
struct Handle {
  std::unique_ptr<Object> object;
  OwnerProcess owner;
  std::array<char, 2048> error{};
};

// Runs call(object of the handle), in the process that it belongs to.
template <class Object, class Call>
capstan_code AnswerFor(Handle<Object>* handle, const Call& call) noexcept {
  if (handle == nullptr) return CAPSTAN_INVALID;
  return Answer(handle->error.data(), handle->error.size(), [&]() -> Status {
    CAPSTAN_RETURN_IF_ERROR(handle->owner.Check());
    return call(*handle->object);
  });
}

template <class Object>
const char* LastError(const Handle<Object>* handle) {
  return handle == nullptr ? "the handle is a null pointer" : handle->error.data();
}

inline Status IsMissing(const char* what) { return Invalid(std::string(what) + " is a null pointer"); }

inline Status CheckSize(std::size_t size, const char* name) {
  if (size > sizeof(std::size_t) && size <= kStructBytesMax) return {};  // more than itself
  return Invalid(std::string(name) + ".size is " + std::to_string(size) + "; set it to sizeof(" + name + ")");
}

// A caller's struct. It is longer than ours where the caller is newer, and shorter where it is older: what it does not
// have is 0.
template <class T>
Result<T> ReadStruct(const T* given, const char* name) {
  if (given == nullptr) return IsMissing(name);
  const std::size_t size = given->size;
  CAPSTAN_RETURN_IF_ERROR(CheckSize(size, name));
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; })) {
    return Unsupported(std::string(name) + " has fields that this library, version " + capstan_version() +
                       ", does not know");
  }
  T known{};
  std::memcpy(static_cast<void*>(&known), bytes, std::min(size, sizeof(T)));
  return known;
}

// Into a caller's struct: what we do not know of it is 0, what it does not know is left out.
template <class T>
Status WriteStruct(const T& value, T* given, const char* name) {
  if (given == nullptr) return IsMissing(name);
  const std::size_t size = given->size;
  CAPSTAN_RETURN_IF_ERROR(CheckSize(size, name));
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &value, std::min(size, sizeof(T)));
  given->size = size;
  return {};
}

// A number where the caller asked for one.
template <class T>
Status WriteOut(const T& value, T* given, const char* name) {
  if (given == nullptr) return IsMissing(name);
  *given = value;
  return {};
}

inline Result<std::chrono::steady_clock::time_point> DeadlineIn(double seconds) {
  using Clock = std::chrono::steady_clock;
  if (std::isnan(seconds)) return Invalid("`seconds` is not a number");
  if (seconds < 0 || seconds > kForeverSeconds) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Of `join_seconds` in the struct `name`, where 0 is left out.
inline Result<std::chrono::milliseconds> JoinDeadline(double seconds, const char* name) {
  if (!(seconds >= 0)) return Invalid(std::string(name) + ".join_seconds is not a number of at least 0");
  const double join = seconds == 0 ? kJoinSeconds : std::min(seconds, kForeverSeconds);
  return std::chrono::milliseconds(static_cast<std::int64_t>(join * 1000));
}

inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

}  // namespace capstan::client
