#include <algorithm>
#include <set>
#include <string>

#include "monitoring/prometheus_text.h"
#include "monitoring/registry.h"
#include "tests/catch.h"
#include "tests/monitoring/planted_metrics.h"

namespace capstan::monitoring {
namespace {

bool HasLine(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

// A histogram counts as its lines: buckets, sum and count.
std::size_t SeriesOf(const Registry& registry) {
  const std::string text = PrometheusText(registry);
  std::size_t series = 0;
  for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) series += text[line] == '#' ? 0 : 1;
  return series;
}

}  // namespace

TEST_CASE("the job has a series of its own once its name is known", "[monitoring]") {
  Registry registry;
  CHECK(PrometheusText(registry).find("capstan_job_info") == std::string::npos);
  registry.NameJob("digits \"x\"");
  CHECK(PrometheusText(registry).find("\ncapstan_job_info{job_name=\"digits \\\"x\\\"\"} 1\n") != std::string::npos);
}

TEST_CASE("the text holds planted counters, gauges and cumulative buckets", "[monitoring]") {
  Registry registry(BuildInfo{"1.2.3", "abc1234"});
  PlantMetrics(registry);
  const std::string text = PrometheusText(registry);
  CAPTURE(text);
  CHECK(HasLine(text, "# TYPE capstan_server_pushes_total counter"));
  CHECK(HasLine(text, "capstan_server_pushes_total{outcome=\"staged\"} 7"));
  CHECK(HasLine(text, "capstan_server_pushes_total{outcome=\"duplicate\"} 2"));
  CHECK(HasLine(text, "capstan_server_requests_total{op=\"push\",code=\"ok\"} 9"));
  CHECK(HasLine(text, "capstan_server_requests_total{op=\"pull\",code=\"stale\"} 1"));
  CHECK(HasLine(text, "# TYPE capstan_server_apply_duration_seconds histogram"));
  CHECK(HasLine(text, "capstan_server_apply_duration_seconds_bucket{le=\"0.001\"} 1"));
  CHECK(HasLine(text, "capstan_server_apply_duration_seconds_bucket{le=\"0.0025\"} 3"));
  CHECK(HasLine(text, "capstan_server_apply_duration_seconds_bucket{le=\"+Inf\"} 4"));
  CHECK(HasLine(text, "capstan_server_apply_duration_seconds_count 4"));
  CHECK(HasLine(text, "capstan_server_update_staleness_steps_bucket{le=\"0\"} 1"));
  CHECK(HasLine(text, "capstan_server_update_staleness_steps_bucket{le=\"6\"} 2"));
  CHECK(HasLine(text, "capstan_server_log_records_total 12"));
  CHECK(HasLine(text, "capstan_server_log_bytes_total 5000"));
  CHECK(HasLine(text, "capstan_server_log_failures_total 0"));
  CHECK(HasLine(text, "capstan_server_log_append_duration_seconds_count 1"));
  CHECK(HasLine(text, "capstan_job_loss 3.25"));
  CHECK(HasLine(text, "capstan_cluster_members{member=\"worker\",state=\"alive\"} 2"));
  CHECK(HasLine(text, "capstan_snapshots_total{result=\"taken\"} 6"));
  CHECK(HasLine(text, "capstan_snapshots_total{result=\"failed\"} 0"));
  CHECK(HasLine(text, "capstan_snapshots_total{result=\"bad\"} 1"));
  CHECK(HasLine(text, "capstan_snapshot_duration_seconds_count 1"));
  CHECK(HasLine(text, "capstan_snapshot_step 38"));
  CHECK(HasLine(text, "capstan_snapshot_bytes 4000"));
  CHECK(HasLine(text, "capstan_worker_phase_seconds_total{phase=\"backward\"} 1.5"));
  CHECK(HasLine(text, "capstan_worker_wait_seconds_count{phase=\"weights\"} 1"));
  CHECK(HasLine(text, "capstan_network_receive_bytes_total{plane=\"data\"} 1048576"));
  CHECK(HasLine(text, "capstan_network_errors_total{kind=\"decode\"} 5"));
  CHECK(HasLine(text, "capstan_build_info{version=\"1.2.3\",commit=\"abc1234\"} 1"));
}

TEST_CASE("shards of one process are summed, and their newest version is the largest", "[monitoring]") {
  Registry registry;
  const auto first = registry.Create<ShardMetrics>(), second = registry.Create<ShardMetrics>();
  first->pushes_staged.Add(3);
  second->pushes_staged.Add(4);
  first->staging_bytes.Set(100);
  second->staging_bytes.Set(50);
  first->version.Set(9);
  second->version.Set(8);
  first->push_seconds.Observe(0.01);
  second->push_seconds.Observe(0.02);
  const std::string text = PrometheusText(registry);
  CAPTURE(text);
  CHECK(HasLine(text, "capstan_server_pushes_total{outcome=\"staged\"} 7"));
  CHECK(HasLine(text, "capstan_server_staging_bytes 150"));
  CHECK(HasLine(text, "capstan_server_step 9"));
  CHECK(HasLine(text, "capstan_server_request_duration_seconds_count{op=\"push\"} 2"));
  CHECK(HasLine(text, "capstan_server_request_duration_seconds_sum{op=\"push\"} 0.03"));
}

TEST_CASE("a loss that nobody set is not exported, and workers of one process are averaged", "[monitoring]") {
  Registry registry;
  const auto first = registry.Create<WorkerMetrics>(), second = registry.Create<WorkerMetrics>(),
             third = registry.Create<WorkerMetrics>();
  CHECK(PrometheusText(registry).find("capstan_worker_loss") == std::string::npos);
  first->loss.Set(1.0);
  third->loss.Set(2.0);
  CHECK(HasLine(PrometheusText(registry), "capstan_worker_loss 1.5"));
}

TEST_CASE("a job is in one of its states, and a process says what its disk and its memory have left", "[monitoring]") {
  Registry registry;
  registry.NameFolder("/");
  registry.Create<CoordinatorMetrics>()->state.Set(2);
  const std::string text = PrometheusText(registry);
  CAPTURE(text);
  CHECK(HasLine(text, "capstan_job_state{state=\"running\"} 1"));
  CHECK(HasLine(text, "capstan_job_state{state=\"gathering\"} 0"));
  CHECK(HasLine(text, "capstan_job_state{state=\"failed\"} 0"));
  const DiskReading disk = ReadDisk("/");
  CHECK(disk.size_bytes > 0);
  CHECK(disk.free_bytes <= disk.size_bytes);
  CHECK(text.find("\ncapstan_disk_free_bytes ") != std::string::npos);
  CHECK(ReadDisk("/no/such/folder").size_bytes == 0);
  CHECK(ReadProcess().memory_left_bytes > 0);
}

TEST_CASE("a process exports a bounded number of series, however large its job is", "[monitoring]") {
  Registry coordinator, server, worker;
  (void)coordinator.Create<CoordinatorMetrics>();
  for (int shard = 0; shard < 16; ++shard) {
    (void)server.Create<ShardMetrics>();
    (void)server.Create<TransportMetrics>();
  }
  (void)worker.Create<WorkerMetrics>();
  (void)coordinator.Create<TransportMetrics>();
  (void)worker.Create<TransportMetrics>();
  CHECK(SeriesOf(coordinator) < 250);
  CHECK(SeriesOf(server) < 350);
  CHECK(SeriesOf(worker) < 150);
}

TEST_CASE("every known label value is there from the start, at 0", "[monitoring]") {
  Registry registry;
  (void)registry.Create<ShardMetrics>();
  (void)registry.Create<TransportMetrics>();
  const std::string text = PrometheusText(registry);
  CHECK(HasLine(text, "capstan_server_requests_total{op=\"other\",code=\"refused\"} 0"));
  CHECK(HasLine(text, "capstan_server_pushes_total{outcome=\"corrupt\"} 0"));
  CHECK(HasLine(text, "capstan_network_errors_total{kind=\"disconnect\"} 0"));
}

TEST_CASE("names keep the conventions: prefix, _total on counters alone, labels that stay few", "[monitoring]") {
  // None of them is job, role, name or instance: Prometheus gives those to the process.
  const std::set<std::string> allowed = {"op",     "code",    "plane",  "kind",    "state",  "phase",   "member",
                                         "action", "outcome", "result", "version", "commit", "job_name"};
  Registry registry;
  PlantMetrics(registry);
  std::size_t series = 0;
  std::set<std::string> names;
  for (const Family& family : registry.Read()) {
    CAPTURE(family.name);
    CHECK(names.insert(family.name).second);
    CHECK((family.name.starts_with("capstan_") || family.name.starts_with("process_")));
    CHECK(family.name.ends_with("_total") == (family.kind == MetricKind::kCounter));
    CHECK(family.help.ends_with("."));
    for (const Sample& sample : family.samples) {
      ++series;
      for (const auto& [name, value] : sample.labels) CHECK(allowed.contains(name));
    }
  }
  CHECK(series < 400);  // a whole cluster in one process; a histogram counts once
}

TEST_CASE("the process's own numbers are plausible", "[monitoring]") {
  const ProcessReading reading = ReadProcess();
  CHECK(reading.resident_bytes > 1e6);
  CHECK(reading.virtual_bytes >= reading.resident_bytes);
  CHECK(reading.cpu_seconds >= 0);
  CHECK(reading.start_time_seconds > 1.5e9);
  CHECK(reading.threads >= 1);
  CHECK(reading.open_fds >= 3);
  CHECK(reading.max_fds >= reading.open_fds);
  const std::string text = PrometheusText(Registry());
  CHECK(text.find("\nprocess_resident_memory_bytes ") != std::string::npos);
  CHECK(text.find("\nprocess_cpu_seconds_total ") != std::string::npos);
}

}  // namespace capstan::monitoring
