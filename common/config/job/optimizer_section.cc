#include "common/config/job/optimizer_section.h"

#include "common/base/glob.h"

namespace capstan {

bool DecayApplies(const OptimizerSection& optimizer, const std::string& tensor_name) {
  for (const std::string& pattern : optimizer.no_decay) {
    if (GlobMatches(pattern, tensor_name)) return false;
  }
  return true;
}

}  // namespace capstan
