// Status, Result<T>: the results of calls that can fail.
//
// Kind:   values.
// Why:    a code names the caller's reaction, the message says what failed, for which item and value, and what
//         to do next.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace capstan {

// How the caller should react to a failure.
enum class Code : int {
  kOk = 0,
  kInvalid = 1,      // fix the call, the file or the flag
  kBusy = 2,         // the same call may succeed later
  kStale = 3,        // the call was for a past state of the job: get the new state and call again
  kTimeout = 4,      // the deadline passed
  kUnreachable = 5,  // the other side does not answer, or the disk fails
  kCorrupt = 6,      // bytes do not match their checksum or format
  kUnsupported = 7,  // known, but not in this build
  kRefused = 8,      // the other side refused; do not retry
};

[[gnu::visibility("default")]] const char* CodeName(Code code);

class [[nodiscard, gnu::visibility("default")]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // Returns "ok", or the code's name and the message, such as "invalid: job.toml:3:1: ...".
  std::string ToString() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status Invalid(std::string message) { return {Code::kInvalid, std::move(message)}; }
inline Status Corrupt(std::string message) { return {Code::kCorrupt, std::move(message)}; }
inline Status Timeout(std::string message) { return {Code::kTimeout, std::move(message)}; }
inline Status Refused(std::string message) { return {Code::kRefused, std::move(message)}; }
inline Status Unreachable(std::string message) { return {Code::kUnreachable, std::move(message)}; }
inline Status Unsupported(std::string message) { return {Code::kUnsupported, std::move(message)}; }

// Prints the condition of a failed CAPSTAN_CHECK and aborts. Only a bug of capstan may cause it, never a peer's bytes.
[[noreturn, gnu::visibility("default")]] void CheckFailed(const char* file, int line, const char* condition);

#define CAPSTAN_CHECK(condition) \
  do { \
    if (!(condition)) [[unlikely]] \
      ::capstan::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#define CAPSTAN_RETURN_IF_ERROR(expression) \
  do { \
    if (::capstan::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define CAPSTAN_CONCAT_INNER(a, b) a##b
#define CAPSTAN_CONCAT(a, b) CAPSTAN_CONCAT_INNER(a, b)
#define CAPSTAN_ASSIGN_OR_RETURN(declaration, expression) \
  auto CAPSTAN_CONCAT(result_, __LINE__) = (expression); \
  if (!CAPSTAN_CONCAT(result_, __LINE__).ok()) return CAPSTAN_CONCAT(result_, __LINE__).status(); \
  declaration = std::move(CAPSTAN_CONCAT(result_, __LINE__)).value()

// A value, or a Status that is not ok.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<1>, std::move(value)) {}
  Result(Status status) : value_(std::in_place_index<0>, std::move(status)) {
    CAPSTAN_CHECK(!std::get<0>(value_).ok());
  }

  bool ok() const { return value_.index() == 1; }
  Status status() const { return ok() ? Status() : std::get<0>(value_); }
  T& value() & {
    CAPSTAN_CHECK(ok());
    return std::get<1>(value_);
  }
  const T& value() const& {
    CAPSTAN_CHECK(ok());
    return std::get<1>(value_);
  }
  T&& value() && {
    CAPSTAN_CHECK(ok());
    return std::get<1>(std::move(value_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> value_;
};

}  // namespace capstan
