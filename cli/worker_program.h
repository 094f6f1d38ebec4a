// WorkerFacts: what capstan-worker can be told on its command line; in a build without the trainer, next to nothing.
#pragma once

#include "cli/reference/command_facts.h"

namespace capstan::cli {

CommandFacts WorkerFacts();

}  // namespace capstan::cli
