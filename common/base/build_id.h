// kBuildId: a digest of this build's sources and compiler. Two binaries with the same id have the same classes and the
// same arithmetic.
#pragma once

namespace capstan {

extern const char kBuildId[];  // 16 hexadecimal digits

}  // namespace capstan
