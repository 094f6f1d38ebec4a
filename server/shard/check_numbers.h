// CheckNumbers: whether a coordinator of this job can have sent a message, by its term and generation.
//
// Kind:  pure function.
// Fails: kInvalid, if the job cannot have got that far; the text has the numbers.
// Why:   a shard keeps the highest term and generation that it was sent. If it took any number, it would not obey the
//        job's coordinator any more.
#pragma once

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

struct CoordinatorNumbers {
  Term term;
  Generation generation;  // 0: the message begins no generation
};

// `known`: the shard's numbers.
Status CheckNumbers(const CoordinatorNumbers& said, const CoordinatorNumbers& known);

}  // namespace capstan::server
