// kBuildId: a digest of the sources and of the compiler that this was built from: equal where two binaries have the
// same classes and the same arithmetic.
#pragma once

namespace capstan {

extern const char kBuildId[];  // 16 hexadecimal digits

}  // namespace capstan
