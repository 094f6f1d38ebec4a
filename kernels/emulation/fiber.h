// Fiber: a stack of its own, on which one function runs, and which may be left in the middle of it.
//
// Kind:   owned by the one thread of the system that switches between its fibers.
// Limits: 64 KiB of stack. Only what a grid runs on, so no exception passes through one.
// Why:    the one place that knows boost.context, and what ThreadSanitizer must be told: each fiber is a thread of
//         its own to it, and a switch orders nothing.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace capstan::emulation {

class Fiber {
 public:
  // What the calling thread is running on already.
  Fiber();
  // Runs `work` once somebody switches to it; when that returns, goes on with the fiber that resumed it last.
  explicit Fiber(std::function<void()> work);
  // It has ended, or was never switched to.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves this one, which is running, for `to`. Returns when somebody switches back.
  void SwitchTo(Fiber& to);

 private:
  boost::context::fiber Run(boost::context::fiber&& left);

  std::function<void()> work_;
  boost::context::fiber context_;  // where it goes on
  void* identity_;                 // in race_detector.h
  bool owns_identity_;
};

}  // namespace capstan::emulation
