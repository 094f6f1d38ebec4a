// CallTorch: runs code that calls libtorch or the program's functions, and turns an exception into a Status.
//
// Fails:  what the code returns; kInvalid with the exception's text.
// Why:    libtorch reports errors by exceptions, and no call of this library throws.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "common/base/status.h"

namespace capstan::libtorch {

template <class Code>
Status CallTorch(const std::string& where, Code&& code) {
  try {
    return code();
  } catch (const c10::Error& error) {
    return Invalid(where + ": libtorch refuses it: " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Invalid(where + ": an exception ended it: " + error.what());
  } catch (...) {
    return Invalid(where + ": an exception ended it, which is no std::exception and has no text");
  }
}

}  // namespace capstan::libtorch
