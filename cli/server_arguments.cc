#include "cli/server_arguments.h"

#include "cli/run/build_info.h"

namespace capstan::cli {

CommandLine ServerCommandLine(ServerArguments* arguments) {
  CommandLine line("Runs the coordinator of a job, or one of its servers.", "capstan-server");
  Command app = line.root();
  app.AddVersion(VersionLine("capstan-server"));
  const Option file = app.Add("JOB.toml", &arguments->job_file, "the job file; a server may have it by --join");
  Command role = app.AddChoice("role");
  const Option coordinator = role.AddFlag("--coordinator", &arguments->coordinator, "be the job's coordinator");
  role.Add("--index", &arguments->index, "be server number INDEX, from 0").InRange(0, 4095);
  const Option join = app.Add("--join", &arguments->join,
                              "address of the coordinator, HOST:PORT or ipc:///PATH: a server has the job file from it")
                          .NotWith(file)
                          .NotWith(coordinator);
  app.Add("--join-seconds", &arguments->join_seconds, "how long --join waits for the coordinator's answer")
      .InRange(0.001, 1e9)
      .ShowDefault()
      .OnlyWith(join);
  app.Add("--run-dir", &arguments->run_dir,
          "folder for what the run leaves behind (default: runs/NAME-coordinator, runs/NAME-server-INDEX); a process "
          "that is started again with the same one goes on");
  DescribeResume(app, "coordinator: ", &arguments->begin);
  app.Add("--set", &arguments->overrides, "section.key=value: another value than the job file's");
  app.Add("--metrics-listen", &arguments->metrics_listen, "HOST:PORT of /metrics (default: metrics.listen)");
  DescribeKeyFile(app, &arguments->key_file);
  DescribeAllowPlaintext(app, &arguments->allow_plaintext);
  app.Add("--trace", &arguments->trace,
          "server: file for what its shards did and when, for Perfetto; written at the end");
  app.AddFlag("--print-config", &arguments->print_config, "print the job file with every default filled in, and end");
  app.Add("--events-fd", &arguments->events_fd, "where to report to a launcher").Hide();
  return line;
}

}  // namespace capstan::cli
