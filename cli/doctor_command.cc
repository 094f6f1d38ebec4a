#include "cli/doctor_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/doctor/coordinator_check.h"
#include "cli/doctor/disk_check.h"
#include "cli/doctor/job_checks.h"
#include "cli/doctor/machine_checks.h"
#include "cli/doctor/network_checks.h"
#include "cli/doctor/python_check.h"
#include "cli/run/process.h"
#include "cli/run/process_keys.h"
#include "common/base/utf8.h"
#include "common/config/job/snapshot_section.h"

namespace capstan::cli {
namespace {

const char* WordOf(Level level) {
  switch (level) {
    case Level::kGood: return "ok";
    case Level::kWarning: return "warning";
    case Level::kError: break;
  }
  return "error";
}

std::size_t CountOf(const std::vector<Finding>& findings, Level level) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.level == level; }));
}

std::vector<Finding> ExamineMachine(const std::string& python) {
  const LimitFacts limits = ReadLimits();
  const NetworkFacts network = ReadNetwork();
  return {CheckBuild(BuildOfThis()),
          CheckProcessor(ReadProcessor()),
          CheckFreeMemory(ReadFreeMemory()),
          CheckOpenFiles(limits),
          CheckProcesses(limits),
          CheckCoreFiles(limits),
          CheckClock(ReadClock()),
          CheckLoopback(network),
          CheckMachineAddress(network),
          CheckTerminal(ReadTerminal()),
          CheckPython(ReadPython(python, OwnFolder() + "/../lib/python3/dist-packages"), python)};
}

// Adds the checks that a job file changes: of the job itself, the device and the disk.
void ExamineJob(const DoctorArguments& arguments, std::vector<Finding>* findings) {
  std::optional<EditableJobConfig> config;
  std::uint64_t snapshot_bytes = 0, snapshots = 0;
  if (!arguments.job_file.empty()) findings->push_back(ReadJob(arguments.job_file, arguments.overrides, &config));
  if (config) {
    snapshots = std::uint64_t{config->snapshot.keep} + 1;
    findings->push_back(CheckNeeds(*config, &snapshot_bytes));
    findings->push_back(CheckThreads(*config, ReadProcessor()));
    findings->push_back(CheckAddresses(*config));
  }
  const JobConfig* const job = config ? &*config : nullptr;
  findings->push_back(CheckDevice(ReadDevice(OwnFolder() + "/../lib/capstan"), job));
  findings->push_back(CheckDisk(MeasureDisk(arguments.run_dir), snapshot_bytes, snapshots));
}

}  // namespace

Command DescribeDoctor(Command app, DoctorArguments* arguments) {
  Command doctor = app.AddCommand("doctor", "Examine this machine, and say what will fail and what to do.");
  const Option file = doctor.Add("JOB.toml", &arguments->job_file,
                                 "a job file: whether all that launch would start for it can run on this machine");
  doctor.Add("--set", &arguments->overrides, "section.key=value: another value than the job file's").OnlyWith(file);
  doctor.Add("--run-dir", &arguments->run_dir, "folder of the run, whose disk is measured").ShowDefault();
  const Option coordinator = doctor.Add("--coordinator", &arguments->coordinator,
                                        "address of a job's coordinator: whether it lets this machine in, and "
                                        "whether their clocks agree");
  doctor
      .Add("--key-file", &arguments->key_file,
           "FILE with the key to show to the coordinator (default: CAPSTAN_KEY_FILE)")
      .OnlyWith(coordinator);
  doctor.Add("--python", &arguments->python, "the interpreter of your training scripts").ShowDefault();
  doctor.Add("-o,--output", &arguments->output, "text or json").OneOf({"text", "json"}).ShowDefault();
  return doctor;
}

int RunDoctor(const DoctorArguments& arguments) {
  PrepareProcess();
  std::vector<Finding> findings = ExamineMachine(arguments.python);
  ExamineJob(arguments, &findings);
  if (!arguments.coordinator.empty()) {
    const CoordinatorFacts facts = AskCoordinator(arguments.coordinator, KeyFileOf(arguments.key_file));
    findings.push_back(CheckCoordinator(facts));
    if (facts.problem.empty()) findings.push_back(CheckSkew(facts));
  }
  std::fputs((arguments.output == "json" ? JsonOf(findings) : TextOf(findings)).c_str(), stdout);
  return CountOf(findings, Level::kError) == 0 ? kExitDone : kExitFailed;
}

std::string TextOf(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += std::string(WordOf(finding.level)) + std::string(9 - std::string(WordOf(finding.level)).size(), ' ') +
            finding.check + ": " + finding.text + "\n";
    if (!finding.advice.empty()) text += "         -> " + finding.advice + "\n";
  }
  const std::size_t errors = CountOf(findings, Level::kError), warnings = CountOf(findings, Level::kWarning);
  text += std::to_string(errors) + (errors == 1 ? " error, " : " errors, ") + std::to_string(warnings) +
          (warnings == 1 ? " warning\n" : " warnings\n");
  return Printable(text);
}

std::string JsonOf(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", WordOf(finding.level)},
                    {"check", finding.check},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  const nlohmann::ordered_json object = {{"findings", std::move(list)},
                                         {"errors", CountOf(findings, Level::kError)},
                                         {"warnings", CountOf(findings, Level::kWarning)}};
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace capstan::cli
