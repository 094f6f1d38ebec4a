// StatusJson: the state of a job as a JSON object for the status page.
//
// Kind:   pure function.
#pragma once

#include <string>

#include "common/base/types.h"

namespace capstan::server {

struct Job;

std::string StatusJson(const Job& job, Instant now);

}  // namespace capstan::server
