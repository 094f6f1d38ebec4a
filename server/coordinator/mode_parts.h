// MakeSteps: the one place where the mode of a job chooses how its steps advance.
//
// Kind:   factory.
#pragma once

#include <memory>

#include "server/coordinator/steps.h"

namespace capstan::server {

std::unique_ptr<Steps> MakeSteps(const JobFacts& facts);

}  // namespace capstan::server
