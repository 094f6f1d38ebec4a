"""Debian's prometheus scrapes every process of a running job, and finds the metrics that users need, with their counts."""
import os
import shutil
import signal
import subprocess
import sys

import harness
import metrics_access

SCRAPE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "monitoring", "prometheus_scrape_test.py")
PROCESSES = {"coordinator", "server-0", "server-1", "worker-0", "worker-1"}

# Queries and their results. "count(m > 0) = n": n series of that metric have counted something.
EVERYWHERE = {
    'count(up == 1)': 5,
    'count(capstan_build_info{version!="unknown"} == 1)': 5,
    'count(capstan_job_info{job_name="small"} == 1)': 5,
    'count(capstan_network_receive_bytes_total{plane="control"} > 0)': 5,
    'count(capstan_network_transmit_messages_total{plane="control"} > 0)': 5,
    'sum(capstan_network_errors_total{kind="decode"})': 0,
    'count(capstan_network_connections_made_total > 0)': 5,
    'count(capstan_process_memory_left_bytes > 0)': 5,
    'count(capstan_disk_free_bytes > 0 and capstan_disk_free_bytes <= capstan_disk_size_bytes)': 3,
}
# Gradients flow from the workers to the servers, weights from the servers to the workers.
DATA = {
    'count(capstan_network_receive_bytes_total{plane="data"} > 0)': 4,
    'count(capstan_network_transmit_bytes_total{plane="data"} > 0)': 4,
    'count(capstan_network_receive_messages_total{plane="data"} > 0)': 4,
    'count(capstan_network_transmit_messages_total{plane="data"} > 0)': 4,
}
WORKERS = {
    'count(capstan_worker_steps_total > 0)': 2,
    'count(capstan_worker_step > 0)': 2,
    'count(capstan_worker_slots > 0)': 2,
    'count(capstan_worker_samples_total > 0)': 2,
    'count(capstan_worker_loss >= 0)': 2,
    'count(capstan_worker_step_duration_seconds_sum > 0)': 2,
    'count(capstan_worker_phase_seconds_total{phase=~"data|forward|backward|encode|wait"} > 0)': 10,
    'count(capstan_worker_wait_seconds_count{phase=~"weights|commit"} > 0)': 4,
    'count(capstan_worker_unstaged_pushes >= capstan_worker_unsent_pushes)': 2,
    'count(capstan_worker_loss_scale == 1)': 2,
}
SERVERS = {
    'count(capstan_server_pushes_total{outcome="staged"} > 0)': 2,
    'sum(capstan_server_pushes_total{outcome=~"invalid|corrupt"})': 0,
    'count(capstan_server_requests_total{op=~"push|pull",code="ok"} > 0)': 4,
    'count(capstan_server_request_duration_seconds_sum{op=~"push|pull"} > 0)': 4,
    'count(capstan_server_apply_duration_seconds_sum > 0)': 2,
    'count(capstan_server_phase_seconds_total{phase=~"apply|pull"} > 0)': 4,
    'sum(capstan_server_shards)': 2,
    'count(capstan_server_updates_applied_total > 0)': 2,
    'count(capstan_server_dense_bytes{kind=~"param|state"} > 0)': 4,
    'count(capstan_server_pool_bytes{state=~"used|free"} >= 0)': 4,
    'count(capstan_server_staging_bytes >= 0)': 2,
    'count(capstan_server_queue_depth >= 0)': 2,
    'count(capstan_server_queue_bytes >= 0)': 2,
}
COORDINATOR = {
    'capstan_job_state{state="running"}': 1,
    'sum(capstan_job_state)': 1,
    'capstan_cluster_members_wanted{member="worker"}': 2,
    'capstan_cluster_members_wanted{member="shard"}': 2,
    'sum(capstan_cluster_restarts_total)': 0,
    'capstan_cluster_members{member="worker",state="alive"}': 2,
    'capstan_cluster_members{member="shard",state="alive"}': 2,
    'capstan_cluster_joins_total{result="accepted"}': 2,
    'capstan_cluster_slots{state="assigned"}': 3,
    'count(capstan_job_step > 0)': 1,
    'count(capstan_job_steps_total{action="apply"} > 0)': 1,
    'count(capstan_job_samples_total > 0)': 1,
    'count(capstan_job_loss >= 0)': 1,
    'count(capstan_job_learning_rate > 0)': 1,
    'count(capstan_job_step_duration_seconds_sum > 0)': 1,
}
STEPPING = {
    'sum(capstan_worker_slots)': 3,
    'count(capstan_server_step > 0)': 2,
    'count(capstan_server_steps_total{action="apply"} > 0)': 2,
    'count(capstan_server_verdict_wait_seconds_sum > 0)': 2,
    'count(capstan_server_pull_wait_seconds_sum > 0)': 2,
    'sum(capstan_server_payload_hash_mismatches_total)': 0,
    'count(capstan_job_gradient_norm >= 0)': 1,
    'count(capstan_job_validation_loss >= 0)': 1,
}


class PrometheusTest(harness.JobTest):
    def scrape(self, expected, *arguments, run):
        # The model has several blocks, so that every shard has some.
        with self.launch(self.job_file(steps=1000000), "--set", "model.hidden=[1024, 512]", "--set",
                         "job.eval_every=1000", *arguments, run=run) as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("step ")
            addresses = self.endpoints(run)["metrics"]
            self.assertEqual(set(addresses), PROCESSES)
            queries = [f"--expect={query}={value}" for query, value in expected.items()]
            with self.slow_workers(run):
                scrape = subprocess.run([sys.executable, "-B", SCRAPE, *queries, *addresses.values()], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * harness.DEADLINE)
            self.assertEqual(scrape.returncode, 0, f"{scrape.stdout}\nthe job said:\n{launch.output}")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)

    def discover(self, access=(), settings=()):
        with self.launch(self.job_file(steps=1000000), *settings) as launch:
            launch.wait_for_line("running: ")
            coordinator = self.endpoints()["metrics"]["coordinator"]
            expected = {'count(up{job="small"} == 1)': 5, 'count(up{role="coordinator"} == 1)': 1,
                        'count(up{role="server",name=~"server-[01]"} == 1)': 2, 'count(up{role="worker"} == 1)': 2,
                        'count(capstan_worker_step{name="worker-1"})': 1}
            queries = [f"--expect={query}={value}" for query, value in expected.items()]
            with self.slow_workers():
                scrape = subprocess.run([sys.executable, "-B", SCRAPE, *queries, *access, "--discover", coordinator], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * harness.DEADLINE)
            self.assertEqual(scrape.returncode, 0, f"{scrape.stdout}\nthe job said:\n{launch.output}")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)

    def test_every_process_of_a_job_is_discovered_by_its_coordinator(self):
        self.discover()

    def test_every_process_of_a_job_is_read_with_a_token(self):
        token = metrics_access.write_token(self.path("token"))
        self.discover(["--token-file", token], ["--set", f"metrics.token_file={token}"])

    def test_every_process_of_a_job_is_read_over_https_with_a_token(self):
        token = metrics_access.write_token(self.path("token"))
        certificate, key = metrics_access.make_certificate(self.path("here"))
        self.discover(["--token-file", token, "--certificate", certificate],
                      ["--set", f"metrics.token_file={token}", "--set", f"metrics.certificate={certificate}",
                       "--set", f"metrics.key={key}"])

    def test_a_synchronous_job_counts_what_it_does(self):
        self.scrape({**EVERYWHERE, **DATA, **WORKERS, **SERVERS, **COORDINATOR, **STEPPING}, run="sync")

    def test_an_asynchronous_job_counts_how_stale_its_gradients_are(self):
        stale = {'count(capstan_server_update_staleness_steps_count > 0)': 2}
        self.scrape({**EVERYWHERE, **DATA, **WORKERS, **SERVERS, **stale}, "--set", 'job.mode="async"', run="async")


if __name__ == "__main__":
    missing = [tool for tool in ("prometheus", "promtool", "openssl") if not shutil.which(tool)]
    if missing:
        ci = os.environ.get("CI") == "true"
        print(f"{'FAILED' if ci else 'SKIPPED'}: {' and '.join(missing)} not found; apt-get install prometheus openssl",
              file=sys.stderr)
        sys.exit(1 if ci else 77)
    harness.main()
