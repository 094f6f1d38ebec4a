// RunWorker: everything a capstan-worker process does between its command line and its exit code.
//
// Kind:   called once, from main.
// Fails:  no coordinator, worker refused, unreadable data, too little memory, failed job. The message says what to do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/free_memory.h"
#include "common/base/status.h"
#include "common/flight/flight_lane.h"
#include "kernels/cuda/library_search.h"
#include "monitoring/metrics.h"
#include "monitoring/registry.h"
#include "monitoring/trace.h"

namespace capstan::train {

struct WorkerOptions {
  std::string coordinator;  // its address
  std::string key_file;     // with this worker's key, where the address has one
  std::string name;         // this worker's name; the command line's default: host name and process id
  std::string address;      // this machine's address for other workers; empty: the one used to reach the coordinator
  std::string machine;      // this machine's name; empty: the system's boot id
  std::string metrics;      // host:port or https://host:port where it serves metrics; empty: none
  std::string data_root = ".";            // folder for relative paths in the job file
  unsigned threads = 0;                   // 0: the job file's number
  double join_seconds = 60;               // longest wait for the coordinator's answer
  std::uint32_t local_rank = 0;           // index among this machine's workers; chooses the GPU for device "cuda"
  std::string plugins;                    // folder with libcapstan_cuda.so and libcapstan_emulated.so
  kernels::LibrarySearch libraries = {};  // where to look for cuBLASLt and other libraries
  monitoring::Trace* trace = nullptr;     // null: no trace
  FlightLane* flight = nullptr;           // outlives the call; null: nothing is recorded
  std::function<FreeMemory()> free_memory = [] { return ReadFreeMemory(); };
  // Called with the job's name, once it is known.
  std::function<void(const std::string&)> on_job = [](const std::string&) {};
  std::function<bool()> stop_requested = [] { return false; };
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

Status RunWorker(const WorkerOptions& options, const std::shared_ptr<monitoring::WorkerMetrics>& metrics,
                 const std::shared_ptr<monitoring::TransportMetrics>& transport_metrics);

}  // namespace capstan::train
