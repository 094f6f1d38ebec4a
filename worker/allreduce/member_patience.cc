#include "worker/allreduce/member_patience.h"

#include "common/config/job/allreduce_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job_config.h"

namespace capstan::train {

namespace {

constexpr double kSilentLeases = 3;
constexpr double kSlowestMiBPerSecond = 10;
// Sending a version may take kShareLeast, plus a second for every kShareBytes bytes.
constexpr auto kShareLeast = std::chrono::minutes(10);
constexpr std::uint64_t kShareBytes = std::uint64_t{1} << 20;

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

std::chrono::milliseconds SilenceMax(const JobConfig& config) {
  return Milliseconds(kSilentLeases * config.limits.lease);
}

std::chrono::milliseconds DevicePatience(const JobConfig& config) {
  return Milliseconds(config.limits.lease + config.allreduce.bucket_mib / kSlowestMiBPerSecond);
}

std::chrono::seconds ShareMax(std::uint64_t bytes) { return kShareLeast + std::chrono::seconds(bytes / kShareBytes); }

}  // namespace capstan::train
