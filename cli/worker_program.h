// WorkerFacts: the options of capstan-worker. A build without the trainer has nearly none.
#pragma once

#include "cli/reference/command_facts.h"

namespace capstan::cli {

CommandFacts WorkerFacts();

}  // namespace capstan::cli
