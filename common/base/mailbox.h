// Mailbox<T>: hands values from one thread to another.
//
// Kind:   shared; any number of threads may push and pop.
// Limits: at most `capacity` values wait.
// Fails:  Push: kBusy (full), kRefused (closed).
// Why:    most objects have one owner thread; values pass from thread to thread through the classes of this file.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/status.h"

namespace capstan {

template <class T>
class Mailbox {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Does not wait for room. On failure `value` is unchanged.
  Status Push(T&& value) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return Refused("the mailbox is closed");
      if (values_.size() >= capacity_) return {Code::kBusy, "the mailbox is full"};
      values_.push_back(std::move(value));
    }
    arrived_.notify_one();
    return {};
  }

  // Takes out the oldest value; returns nothing if the mailbox is empty.
  std::optional<T> TryPop() {
    const std::lock_guard lock(mutex_);
    return TakeFirst();
  }

  // Waits for a value. Returns nothing when the deadline has passed, or when the mailbox is closed and empty.
  std::optional<T> PopUntil(Deadline deadline) {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, deadline, [this] { return closed_ || !values_.empty(); });
    return TakeFirst();
  }

  // Refuses further values and wakes all waiting threads. Values inside can still be taken out.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  std::optional<T> TakeFirst() {
    if (values_.empty()) return std::nullopt;
    std::optional<T> first(std::move(values_.front()));
    values_.pop_front();
    return first;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<T> values_;  // guarded by mutex_
  bool closed_ = false;   // guarded by mutex_
};

// Guarded<T>: one value that several threads share under a mutex. A thread can wait until the value meets a condition.
template <class T>
class Guarded {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Calls f(value) under the mutex.
  template <class F>
  auto With(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(value_);
  }
  // Calls f(value) under the mutex. Then threads that wait in AwaitUntil check their conditions again.
  template <class F>
  auto Change(F&& f) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();  // woken threads get the mutex after f has returned
    return f(value_);
  }
  // Waits until condition(value) is true. Returns false if the deadline passes first.
  template <class Condition>
  bool AwaitUntil(Deadline deadline, Condition&& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return condition(value_); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};  // guarded by mutex_
};

// Latest<T>: the value that was published last. Any thread may read it.
template <class T>
class Latest {
 public:
  void Publish(const T& value) {
    const std::lock_guard lock(mutex_);
    value_ = value;
  }
  T Read() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace capstan
