#include "tests/emulation/fiber.h"

#include <boost/context/fixedsize_stack.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "tests/emulation/race_detector.h"

namespace capstan::emulation {
namespace {

namespace context = boost::context;

// The size is not a power of two: stacks whose tops are a multiple of 4096 bytes apart evict each other from the cache.
constexpr std::size_t kStackBytes = (std::size_t{64} << 10) + 13 * 64;

thread_local Fiber* left_last = nullptr;

}  // namespace

Fiber::Fiber() : identity_(RunningIdentity()), owns_identity_(false) {}

Fiber::Fiber(std::function<void()> work)
    : work_(std::move(work)),
      context_(std::allocator_arg, context::fixedsize_stack(kStackBytes),
               [this](context::fiber&& left) { return Run(std::move(left)); }),
      identity_(NewIdentity()),
      owns_identity_(true) {}

Fiber::~Fiber() {
  if (owns_identity_) DeleteIdentity(identity_);
}

context::fiber Fiber::Run(context::fiber&& left) {
  left_last->context_ = std::move(left);
  work_();
  RunAs(left_last->identity_);
  return std::move(left_last->context_);
}

void Fiber::SwitchTo(Fiber& to) {
  left_last = this;
  RunAs(to.identity_);
  context::fiber left = std::move(to.context_).resume();
  // Stores the context of the fiber that switched here; the context is empty if that fiber has ended.
  left_last->context_ = std::move(left);
}

}  // namespace capstan::emulation
