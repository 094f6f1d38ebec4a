// Fiber: a separate stack that runs one function, which can be suspended at any point.
//
// Kind:   owned by the one system thread that switches between its fibers.
// Limits: 64 KiB of stack. Only grids run on fibers, so no exception passes through one.
// Why:    only this class knows boost.context, and the calls that ThreadSanitizer needs. ThreadSanitizer treats each
//         fiber as a thread, and a switch orders no memory accesses.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace capstan::emulation {

class Fiber {
 public:
  // Stands for the fiber that the calling thread is running on already.
  Fiber();
  // Runs `work` at the first switch to it; when `work` returns, the fiber that resumed it last continues.
  explicit Fiber(std::function<void()> work);
  // A fiber may be destroyed after it has ended, or if it was never switched to.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Suspends this running fiber and resumes `to`. Returns at the next switch back.
  void SwitchTo(Fiber& to);

 private:
  boost::context::fiber Run(boost::context::fiber&& left);

  std::function<void()> work_;
  boost::context::fiber context_;  // where the fiber continues
  void* identity_;                 // its identity in race_detector.h
  bool owns_identity_;
};

}  // namespace capstan::emulation
