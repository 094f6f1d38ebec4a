#include "cli/worker_arguments.h"

#include "cli/run/build_info.h"
#include "cli/worker_program.h"

namespace capstan::cli {

CommandLine WorkerCommandLine(WorkerArguments* arguments) {
  CommandLine line("Computes gradients for a job.", "capstan-worker");
  Command app = line.root();
  app.AddVersion(VersionLine("capstan-worker"));
  app.Add("--coordinator", &arguments->worker.coordinator,
          "address of the job's coordinator, HOST:PORT, HOST:PORT#KEY or ipc:///PATH (default: CAPSTAN_COORDINATOR)");
  app.Add("--name", &arguments->worker.name, "this worker's name; a newer process of that name takes over");
  app.Add("--address", &arguments->worker.address,
          "mode allreduce, and allreduce.local_reduce: address of this machine that the other workers reach it "
          "by; default: "
          "the one towards the coordinator");
  app.Add("--machine", &arguments->worker.machine,
          "allreduce.local_reduce: name of the machine, the same for its workers alone (default: the boot id)");
  app.Add("--data-root", &arguments->worker.data_root, "folder that the job's data paths are below");
  app.Add("--threads", &arguments->worker.threads, "threads that compute (default: worker.threads)");
  app.Add("--local-rank", &arguments->worker.local_rank,
          "number of this worker among those of its machine, from 0: which of its GPUs device = \"cuda\" is")
      .ShowDefault();
  app.Add("--join-seconds", &arguments->worker.join_seconds, "how long to wait for the coordinator")
      .InRange(0.001, 1e9)
      .ShowDefault();
  MetricsSection& metrics = arguments->metrics;  // the worker serves metrics before it has the job file
  app.Add("--metrics-listen", &metrics.listen,
          "HOST:PORT of /metrics; HOST auto: the address that leads to the coordinator if there is a token or a "
          "certificate, else 127.0.0.1")
      .ShowDefault();
  DescribeKeyFile(app, &arguments->worker.key_file);
  DescribeAllowPlaintext(app, &arguments->allow_plaintext);
  app.Add("--metrics-token-file", &metrics.token_file, "file with the secret that readers of the metrics send");
  app.Add("--metrics-certificate", &metrics.certificate, "file in PEM: serve the metrics over https");
  app.Add("--metrics-key", &metrics.key, "file in PEM with the private key of --metrics-certificate");
  app.Add("--metrics-host", &metrics.hosts, "a name by which readers call this worker; may be repeated");
  app.Add("--trace", &arguments->trace, "file for what it did and when, for Perfetto; written at the end");
  app.Add("--flight", &arguments->flight,
          "folder for its flight recording, which capstan flight shows; a launched worker has that of its run");
  app.Add("--events-fd", &arguments->events_fd, "where to report to a launcher").Hide();
  return line;
}

CommandFacts WorkerFacts() {
  WorkerArguments arguments;
  return WorkerCommandLine(&arguments).root().Facts();
}

}  // namespace capstan::cli
