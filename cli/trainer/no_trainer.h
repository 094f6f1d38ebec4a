// NoTrainer: the error for everything that needs the built-in trainer, in a build without it.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Returns kUnsupported. `who`: what needs the trainer, such as "the [model] of job \"digits\"".
Status NoTrainer(const std::string& who);

}  // namespace capstan::cli
