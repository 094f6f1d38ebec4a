// The names of JobConfig and its sections, for headers that only refer to them.
#pragma once

#include <cstdint>

namespace capstan {

class EditableJobConfig;
class JobConfig;
struct AllReduceSection;
struct ClusterSection;
struct DataSection;
struct JobSection;
struct LimitsSection;
struct MetricsSection;
struct ModelSection;
struct OptimizerSection;
struct ScheduleSection;
struct SecuritySection;
struct SnapshotSection;
struct WorkerSection;
enum class Collective : std::uint8_t;
enum class TransportWord : std::uint8_t;

}  // namespace capstan
