// Helpers for the functions of <capstan/capstan.h>: they read a call's arguments and write its results.
//
// Kind:   pure functions.
// Fails:  kInvalid and kUnsupported; the message names the argument or the struct's field.
// Why:    no exception and no C++ type reaches a C program, and missing or wrong arguments are found in one place.
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

inline constexpr double kForeverSeconds = 100.0 * 365 * 24 * 3600;  // fits into the clock's range
inline constexpr double kJoinSeconds = 60;
inline constexpr std::size_t kStructBytesMax = 4096;  // a larger size was never initialised

inline void CopyText(const char* text, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t length = std::min(std::strlen(text), bytes - 1);
  std::memcpy(to, text, length);
  to[length] = '\0';
}

// Runs `call` and lets no exception out. Our code does not throw, so an exception means that memory or threads ran out.
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

// The handle that a C program holds: the C++ object, the process that owns it, and the text of the last failed call.
template <class Object>
struct Handle {
  std::unique_ptr<Object> object;
  OwnerProcess owner;
  std::array<char, 2048> error{};
};

// Runs call(*handle->object). In any other process than the handle's owner it answers kInvalid instead.
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
  if (size > sizeof(std::size_t) && size <= kStructBytesMax) return {};  // at least one field besides `size`
  return Invalid(std::string(name) + ".size is " + std::to_string(size) + "; set it to sizeof(" + name + ")");
}

// Reads a caller's struct. If a newer caller's struct is longer than ours, its extra bytes must be 0. If an older
// caller's struct is shorter, the fields that it lacks are 0.
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

// Writes a caller's struct. Fields that we do not know become 0; fields that the caller does not know are left out.
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

// Writes one value to a caller's pointer.
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

// Reads field `join_seconds` of the struct `name`; 0 means the default.
inline Result<std::chrono::milliseconds> JoinDeadline(double seconds, const char* name) {
  if (!(seconds >= 0)) return Invalid(std::string(name) + ".join_seconds is not a number of at least 0");
  const double join = seconds == 0 ? kJoinSeconds : std::min(seconds, kForeverSeconds);
  return std::chrono::milliseconds(static_cast<std::int64_t>(join * 1000));
}

inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

}  // namespace capstan::client
