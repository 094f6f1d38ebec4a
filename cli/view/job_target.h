// JobTarget: the job that a command shows, by its run directory or by the address of its coordinator's pages.
//
// Kind:   a value. FindTarget may ask the system for the address of a name.
// Fails:  kInvalid: neither a folder nor such an address, or an https address without a certificate.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/config/job/metrics_section.h"

namespace capstan::cli {

// How to read a process's pages, if the job file does not say it.
struct PagesAccess {
  std::string token_file, certificate;
};

struct JobTarget {
  std::string run_dir;  // empty: the job is known by its address only
  std::string address;  // numeric HOST:PORT; empty: the run directory has it
  PagesAccess access;

  // Returns how the pages are read: as the job file says, and as `access` says.
  MetricsSection Pages(MetricsSection section) const;
  // Returns the name by which messages refer to the job.
  const std::string& name() const { return run_dir.empty() ? address : run_dir; }
};

// `word`: a run directory, HOST:PORT, http://HOST:PORT or https://HOST:PORT; empty: the run that is running, or else
// the newest.
Result<JobTarget> FindTarget(const std::string& word, const PagesAccess& access);

}  // namespace capstan::cli
