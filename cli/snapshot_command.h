// SnapshotCommand: capstan snapshot list|verify|export|import|delete.
//
// Kind:   owned by main; declares its options, then runs the chosen command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/snapshot/delete_snapshots.h"
#include "cli/snapshot/export_snapshot.h"
#include "cli/snapshot/import_weights.h"

namespace capstan::cli {

class SnapshotCommand {
 public:
  explicit SnapshotCommand(Command app);
  SnapshotCommand(const SnapshotCommand&) = delete;
  SnapshotCommand& operator=(const SnapshotCommand&) = delete;

  bool parsed() const { return snapshot_.parsed(); }
  // Runs the chosen command and returns the exit code.
  int Run();

 private:
  Command Add(const std::string& name, const std::string& help);
  void AddExport();
  void AddImport();
  void AddDelete();

  // If the user names no run, sets run_dir_ to the newest launched run.
  Status FindRun();
  int List() const;
  int Verify() const;
  int Export() const;
  int ShowExported(const server::ManifestRecord& manifest, const Exported& exported) const;
  int Import() const;
  int Delete() const;

  Command snapshot_;
  std::string output_ = "table";
  std::string run_dir_;
  std::optional<std::uint64_t> step_;
  std::string to_;
  bool optimizer_ = false;
  ImportOptions import_;
  std::optional<std::uint64_t> all_but_;
  bool force_ = false;
};

}  // namespace capstan::cli
