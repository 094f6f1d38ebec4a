// StatusJson: the state of a job as JSON for the status page: the same facts as in the log and on the terminal.
//
// Kind:   pure function.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan::server {

struct Job;

std::string StatusJson(const Job& job, Instant now);

}  // namespace capstan::server
