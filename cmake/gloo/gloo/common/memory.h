// Stands in for a header of Gloo's that Debian's libgloo-dev lacks, though other headers of Gloo's include it. Where
// the package has it, the compiler takes that one (-idirafter).
//
// Kind:   the layout of two classes, one pointer each, as in Gloo 5b14351. Only Gloo's own code uses their contents.
#pragma once

#include <memory>

namespace gloo {

template <class T>
class NonOwningPtr final {
  std::shared_ptr<T> pointer_;
};

template <class T>
class WeakNonOwningPtr final {
  std::weak_ptr<T> pointer_;
};

}  // namespace gloo
