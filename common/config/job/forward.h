// The names of JobConfig and its sections, for headers that only refer to them.
#pragma once

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
struct SnapshotSection;
struct WorkerSection;

}  // namespace capstan
