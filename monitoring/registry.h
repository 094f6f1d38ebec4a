// Registry: the metric structs of one process.
//
// Kind:   shared; any thread adds and reads.
// Why:    the metrics of an actor that has ended stay listed. To Prometheus, a sum that fell would look like a restart
//         of the process.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "monitoring/family_table.h"
#include "monitoring/metric_families.h"
#include "monitoring/metrics.h"

namespace capstan::monitoring {

class Registry {
 public:
  explicit Registry(BuildInfo build = {}) : build_(std::move(build)) {}

  // Lists a struct. Metrics is one of ShardMetrics, CoordinatorMetrics, WorkerMetrics, TransportMetrics.
  template <class Metrics>
  void Add(std::shared_ptr<const Metrics> metrics) {
    CAPSTAN_CHECK(metrics != nullptr);
    const std::lock_guard lock(mutex_);
    std::get<List<Metrics>>(lists_).push_back(std::move(metrics));
  }
  // Makes, adds and returns a struct, as in: auto metrics = registry.Create<ShardMetrics>();
  template <class Metrics>
  std::shared_ptr<Metrics> Create() {
    auto metrics = std::make_shared<Metrics>();
    Add<Metrics>(metrics);
    return metrics;
  }

  // Sets the label "job_name" of capstan_job_info, once the process knows its job. The label is not "job", because
  // Prometheus adds a label of that name itself.
  void NameJob(std::string job) {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  // Has the disk of this folder read as well.
  void NameFolder(std::string folder) {
    const std::lock_guard lock(mutex_);
    folder_ = std::move(folder);
  }

  // Reads all metrics now, including the process's own figures.
  std::vector<Family> Read() const;

 private:
  template <class Metrics>
  using List = std::vector<std::shared_ptr<const Metrics>>;

  const BuildInfo build_;
  mutable std::mutex mutex_;
  std::string job_, folder_;  // guarded by mutex_, as are the lists
  std::tuple<List<ShardMetrics>, List<CoordinatorMetrics>, List<WorkerMetrics>, List<TransportMetrics>> lists_;
};

}  // namespace capstan::monitoring
