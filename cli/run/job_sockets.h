// JobSockets: the folder in which the processes of a job on one machine have their Unix sockets.
//
// Kind:   a value; its functions ask and change the file system.
// Fails:  Make: no folder is private (private_folder.h), short enough for a socket's path, and on a disk with sockets.
// Why:    the run directory comes first: it lives as long as the run and has the same path when the run is resumed.
//         Sometimes it does not do: its path is long, other users may rename a folder above it, or its disk has no
//         sockets. ($XDG_RUNTIME_DIR would be no help: it goes when its user logs out, and jobs go on after that.)
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::cli {

class JobSockets {
 public:
  // Makes or finds the folder of the run: RUN_DIR/sockets, else TEMP/capstan-UID/run-HASH, with a hash of RUN_DIR's
  // path.
  static Result<JobSockets> Make(const std::string& run_dir);
  // Returns the folder in which the coordinator has this local address.
  static JobSockets Of(const std::string& coordinator);

  std::string coordinator() const;
  std::string shard(ShardIndex shard) const;
  std::string scripts() const;  // where the scripts of `capstan run` ask for their job
  // Removes the sockets that killed processes have left, and the folder. Call it when all processes have ended.
  void Remove() const;

 private:
  explicit JobSockets(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace capstan::cli
