// kBuildId: a digest of the compiler, the build type and the sources of common/, kernels/ and most of worker/. A worker
// loads a device plug-in only if the plug-in's id equals its own.
#pragma once

namespace capstan {

extern const char kBuildId[];  // 16 hexadecimal digits

}  // namespace capstan
