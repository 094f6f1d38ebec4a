// RunWorker: everything a capstan-worker process does between its command line and its exit code.
//
// Kind:   called once, from main.
// Fails:  no coordinator, refused, unreadable data, too little memory, a job that failed: one message, with what to do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/cuda/library_search.h"
#include "monitoring/metrics.h"
#include "monitoring/registry.h"
#include "monitoring/trace.h"
#include "worker/train/free_memory.h"

namespace capstan::train {

struct WorkerOptions {
  std::string coordinator;                // "host:port"
  std::string name;                       // of this worker; default of the command line: host name and process id
  std::string address;                    // of this machine, for other workers; empty: that towards the coordinator
  std::string machine;                    // that it runs on; empty: by the system's own id
  std::string metrics;                    // host:port where it serves them; empty: it serves none
  std::string data_root = ".";            // what relative paths of the job are below
  unsigned threads = 0;                   // 0: what the job file says
  double join_seconds = 60;               // until the coordinator has answered
  std::uint32_t local_rank = 0;           // among the workers of this machine: which of its GPUs "cuda" is
  std::string plugins;                    // folder of libcapstan_cuda.so and libcapstan_emulated.so
  kernels::LibrarySearch libraries = {};  // where cuBLASLt may be
  monitoring::Trace* trace = nullptr;     // null: none is kept
  std::function<FreeMemory()> free_memory = [] { return ReadFreeMemory(); };
  std::function<void(const std::string&)> on_job = [](const std::string&) {};  // its name, once that is known
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

Status RunWorker(const WorkerOptions& options, const std::shared_ptr<monitoring::WorkerMetrics>& metrics,
                 const std::shared_ptr<monitoring::TransportMetrics>& transport_metrics);

}  // namespace capstan::train
