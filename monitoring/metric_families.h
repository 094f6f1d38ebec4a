// Describe: the name, help text, type and labels of every metric that capstan exports.
//
// Kind:   pure functions.
// Limits: a label is never a tensor, a rank, a step, an address or an error text, and none has the name of a label that
//         Prometheus gives a process (job, role, name, instance). Except for the build's version and commit, the values
//         of labels are fixed in metric_families.cc.
// Why:    dashboards and alert rules depend on these names, so they are in one file, metric_families.cc.
#pragma once

#include <string>

#include "monitoring/family_table.h"
#include "monitoring/metrics.h"
#include "monitoring/process_metrics.h"

namespace capstan::monitoring {

struct BuildInfo {
  std::string version = "unknown", commit = "unknown";
};

void Describe(const BuildInfo& build, FamilyTable& table);
void Describe(const ProcessReading& process, FamilyTable& table);
void Describe(const DiskReading& disk, FamilyTable& table);
void Describe(const ShardMetrics& metrics, FamilyTable& table);
void Describe(const CoordinatorMetrics& metrics, FamilyTable& table);
void Describe(const WorkerMetrics& metrics, FamilyTable& table);
void Describe(const TransportMetrics& metrics, FamilyTable& table);

}  // namespace capstan::monitoring
