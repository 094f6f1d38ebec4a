// JobTransport: where the coordinator and the shards of a job listen, and with which keys, as [security] transport
// says.
//
// Kind:   owned by main's thread.
// Fails:  kInvalid: an address that cannot be used, or no place for sockets. kRefused: an address that other machines
//         reach in plaintext, if that is not allowed.
// Why:    only CreateJobTransport asks which transport a job has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/run/exposure.h"
#include "cli/run/process_keys.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "common/wire/transport.h"

namespace capstan::cli {

class JobTransport {
 public:
  virtual ~JobTransport() = default;

  // Whether this process may use the addresses in the job file; reads its keys if it needs any. Call it before anything
  // is changed on the disk.
  virtual Status Check() = 0;
  // As Check, for the process that starts the job's others and does not listen itself.
  virtual Status CheckLaunch() = 0;
  // Whether the job's processes need keys.
  virtual bool needs_keys() const = 0;
  // Returns the address on which the job's coordinator listens. Port 0 stands for any free one.
  virtual Result<std::string> FindCoordinator(const std::string& run_dir) = 0;
  // Returns the address on which each shard of the server listens, as the job file or the way to the coordinator says.
  virtual Result<std::vector<std::string>> FindShards(std::uint32_t server) const = 0;
  // Returns the options for the sockets of this process, after Check.
  virtual TransportOptions Options() const = 0;
  // Removes what FindCoordinator has made. Call it when all processes of the job have ended.
  virtual void Remove() = 0;
};

// `config` outlives the transport. `key_file`: with this process's key; read only if the job has keys.
std::unique_ptr<JobTransport> CreateJobTransport(const JobConfig& config, Plaintext plaintext, std::string key_file,
                                                 ListedAdmission::OnNotice on_notice);

}  // namespace capstan::cli
