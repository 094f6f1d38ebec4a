// Fiber: a separate stack that runs one function, which can be suspended at any point.
//
// Kind:   owned by the one system thread that switches between its fibers.
// Limits: about 64 KiB of stack. Only CUDA kernels run on fibers, so no exception passes through a fiber.
// Why:    only this class uses boost.context, and tells ThreadSanitizer about switches. For ThreadSanitizer each fiber
//         is a thread, and a switch orders no memory accesses.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace capstan::emulation {

class Fiber {
 public:
  // Stands for the stack that the calling thread already runs on.
  Fiber();
  // Runs `work` at the first switch to this fiber. When `work` returns, the fiber that switched here last continues.
  explicit Fiber(std::function<void()> work);
  // A fiber may be destroyed after its work has returned, or if there was no switch to it.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Suspends this fiber, which must be running, and resumes `to`. Returns at the next switch to this fiber.
  void SwitchTo(Fiber& to);

 private:
  boost::context::fiber Run(boost::context::fiber&& left);

  std::function<void()> work_;
  boost::context::fiber context_;  // where the fiber continues
  void* identity_;                 // its identity in race_detector.h
  bool owns_identity_;
};

}  // namespace capstan::emulation
