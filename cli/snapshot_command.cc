#include "cli/snapshot_command.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "cli/run/find_run.h"
#include "cli/run/go_on_file.h"
#include "cli/run/process.h"
#include "cli/snapshot/check_snapshot.h"
#include "cli/snapshot/rows.h"
#include "cli/snapshot/run_snapshots.h"

namespace capstan::cli {

namespace {

using Json = nlohmann::ordered_json;
using server::ManifestRecord;

// How many times a command tries to read: a running job may delete snapshots while they are being read.
constexpr int kLooksMax = 5;

int Fail(const Status& status) {
  Complain("capstan", status.message());
  return status.code() == Code::kInvalid ? kExitUsage : kExitFailed;
}

void Note(const std::string& text) { Complain("capstan", text); }

std::string TimeText(std::int64_t seconds) {
  const std::time_t time = seconds;
  tm day{};
  gmtime_r(&time, &day);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &day);
  return text.data();
}

// Returns when the newest of the snapshot's parts was written; null if no part is on this machine.
Json WrittenAt(const RunSnapshots& run, const ManifestRecord& manifest) {
  std::int64_t newest = 0;
  for (ShardIndex part = 0; part < manifest.digests.size(); ++part) {
    const Result<std::int64_t> written = run.parts->WrittenAt(manifest.id, part);
    if (written.ok()) newest = std::max(newest, *written);
  }
  return newest == 0 ? Json() : Json(TimeText(newest));
}

Json RowOf(const RunSnapshots& run, const ManifestRecord& manifest, const std::vector<std::string>& bad) {
  return {{"step", manifest.id.version.value},
          {"generation", manifest.id.generation.value},
          {"shards", manifest.digests.size()},
          {"bytes", manifest.bytes},
          {"written", WrittenAt(run, manifest)},
          {"whole", bad.empty()},
          {"problems", bad}};
}

Status DeletedMeanwhile(const ManifestRecord& manifest) {
  return {Code::kBusy, "the job that is running has deleted the snapshot of step " +
                           std::to_string(manifest.id.version.value) + " meanwhile; take a newer one"};
}

}  // namespace

SnapshotCommand::SnapshotCommand(Command app)
    : snapshot_(app.AddCommand("snapshot", "Look at a run's snapshots, and move weights in and out.")) {
  snapshot_.AllowOneCommand();
  Add("list", "The snapshots of a run, oldest first.");
  Add("verify", "Read every block of every snapshot and compare it with its manifest.")
      .Add("--step", &step_, "only the snapshot of this step");
  AddExport();
  AddImport();
  AddDelete();
}

Command SnapshotCommand::Add(const std::string& name, const std::string& help) {
  Command command = snapshot_.AddCommand(name, help);
  Option run_dir = command.Add("--run-dir", &run_dir_, "the folder of the run");
  const bool only_reads = name == "list" || name == "verify" || name == "export";  // their default is the newest run
  if (!only_reads) run_dir.Required();
  command.Add("-o,--output", &output_, "table or json").OneOf({"table", "json"}).ShowDefault();
  return command;
}

void SnapshotCommand::AddExport() {
  Command command = Add("export", "Write the weights of a snapshot as a safetensors file.");
  command.Add("--step", &step_, "of which step (default: the newest)");
  command.Add("--to", &to_, "the file").Required();
  command.AddFlag("--optimizer", &optimizer_, "the optimizer's state too");
}

void SnapshotCommand::AddImport() {
  Command command = Add("import", "Make a new run directory whose job begins with the weights of a file.");
  command.Add("JOB.toml", &import_.job_file, "the job file").Required();
  command.Add("WEIGHTS.safetensors", &import_.weights, "fp32 tensors, all of the model's").Required();
  command.Add("--map", &import_.renames, "OLD=NEW: the file's tensor OLD is the model's NEW");
  command.Add("--set", &import_.overrides, "section.key=value: another value than the job file's");
}

void SnapshotCommand::AddDelete() {
  Command command = Add("delete", "Delete snapshots of a run that is not running.");
  const Option step = command.Add("--step", &step_, "the snapshot of this step");
  command.Add("--all-but", &all_but_, "all but so many of the newest").NotWith(step).InRange(1, 1'000'000);
  command.AddFlag("--force", &force_, "the newest too: the job then goes back to the one before it");
}

Status SnapshotCommand::FindRun() {
  if (!run_dir_.empty()) return {};
  CAPSTAN_ASSIGN_OR_RETURN(run_dir_, NewestLaunchedRun());
  Note("of " + run_dir_ + ", the newest run under runs/");
  return {};
}

int SnapshotCommand::Run() {
  if (const Status status = FindRun(); !status.ok()) return Fail(status);
  if (snapshot_.chose("list")) return List();
  if (snapshot_.chose("verify")) return Verify();
  if (snapshot_.chose("export")) return Export();
  if (snapshot_.chose("import")) return Import();
  if (snapshot_.chose("delete")) return Delete();
  std::fputs(snapshot_.Help("capstan").c_str(), stderr);
  return kExitUsage;
}

int SnapshotCommand::List() const {
  Json rows = Json::array();
  for (int look = 0; look < kLooksMax; ++look) {
    const Result<RunSnapshots> run = ReadRunSnapshots(run_dir_);
    if (!run.ok()) return Fail(run.status());
    rows = Json::array();
    for (const ManifestRecord& manifest : run->manifests) {
      const std::vector<std::string> bad = BadParts(*run, manifest);
      if (bad.empty() || StillExists(*run, manifest.id)) rows.push_back(RowOf(*run, manifest, bad));
    }
    if (rows.size() == run->manifests.size()) break;
  }
  PrintRows(rows, output_);
  if (rows.empty()) Note("there is no snapshot in " + run_dir_ + " yet");
  return kExitDone;
}

int SnapshotCommand::Verify() const {
  const Result<RunSnapshots> run = ReadRunSnapshots(run_dir_);
  if (!run.ok()) return Fail(run.status());
  const Result<const ManifestRecord*> chosen = FindSnapshot(*run, step_);
  if (!chosen.ok()) return Fail(chosen.status());
  Json rows = Json::array();
  bool good = true;
  for (const ManifestRecord& manifest : run->manifests) {
    if (step_ && *chosen != &manifest) continue;
    const SnapshotCheck check = CheckSnapshot(*run, manifest);
    if (!check.problems.empty() && !StillExists(*run, manifest.id)) {
      Note(DeletedMeanwhile(manifest).message());
      continue;
    }
    good = good && check.problems.empty();
    rows.push_back({{"step", manifest.id.version.value},
                    {"generation", manifest.id.generation.value},
                    {"shards", manifest.digests.size()},
                    {"blocks", check.blocks},
                    {"bytes", check.bytes},
                    {"good", check.problems.empty()},
                    {"problems", check.problems}});
  }
  PrintRows(rows, output_);
  return good && !rows.empty() ? kExitDone : kExitFailed;
}

int SnapshotCommand::Export() const {
  const ExportContents contents = optimizer_ ? ExportContents::kWeightsAndState : ExportContents::kWeights;
  Status failure;
  for (int look = 0; look < kLooksMax; ++look) {
    const Result<RunSnapshots> run = ReadRunSnapshots(run_dir_);
    if (!run.ok()) return Fail(run.status());
    const Result<const ManifestRecord*> chosen = FindSnapshot(*run, step_);
    if (!chosen.ok()) return Fail(chosen.status());
    const ManifestRecord& manifest = **chosen;
    const Result<Exported> exported = ExportSnapshot(*run, manifest, to_, contents);
    if (exported.ok()) return ShowExported(manifest, *exported);
    if (StillExists(*run, manifest.id)) return Fail(exported.status());
    failure = DeletedMeanwhile(manifest);
    if (step_) break;
  }
  return Fail(failure);
}

int SnapshotCommand::ShowExported(const ManifestRecord& manifest, const Exported& exported) const {
  const Json row = {{"file", to_},
                    {"step", manifest.id.version.value},
                    {"generation", manifest.id.generation.value},
                    {"tensors", exported.tensors},
                    {"bytes", exported.bytes}};
  PrintRows(Json::array({row}), output_);
  return kExitDone;
}

int SnapshotCommand::Import() const {
  ImportOptions options = import_;
  options.run_dir = run_dir_;
  const Result<Imported> imported = ImportWeights(options);
  if (!imported.ok()) return Fail(imported.status());
  const Json row = {{"run_dir", run_dir_},
                    {"step", 0},
                    {"tensors", imported->tensors},
                    {"bytes", imported->bytes},
                    {"shards", imported->shards}};
  PrintRows(Json::array({row}), output_);
  if (imported->layout == WeightLayout::kGpt2) Note("the file has GPT-2's layout: linear weights were transposed");
  const std::string call = "capstan launch --resume --run-dir " + run_dir_;
  if (const Status status = WriteGoOnCall(run_dir_, call); !status.ok()) return Fail(status);
  Note("begin with these weights: " + call);
  return kExitDone;
}

int SnapshotCommand::Delete() const {
  if (!step_ && !all_but_) return Fail(Invalid("say which snapshots: --step N, or --all-but M"));
  const Result<Deleted> deleted = DeleteSnapshots(
      run_dir_, {.step = step_, .all_but = all_but_, .newest = force_ ? DeleteNewest::kAllow : DeleteNewest::kRefuse});
  if (!deleted.ok()) return Fail(deleted.status());
  Json rows = Json::array();
  for (const SnapshotId& id : deleted->snapshots) {
    rows.push_back({{"step", id.version.value}, {"generation", id.generation.value}, {"deleted", true}});
  }
  PrintRows(rows, output_);
  if (rows.empty()) Note("nothing was to be deleted");
  for (const std::string& left : deleted->left_behind) {
    Note("a part is still on the disk, the job removes it when it goes on: " + left);
  }
  return kExitDone;
}

}  // namespace capstan::cli
