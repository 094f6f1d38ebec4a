// MachineUse: how the cores' time was divided among this process with its descendants, other processes, and the host.
// UseMeter: measures it.
//
// Kind:   values and pure functions; UseMeter and ReadX read /proc.
// Limits: ticks of 10 ms; a descendant whose parent has ended counts as another process.
// Fails:  without /proc/stat all times are 0, and the shares are 0, too.
// Why:    on a machine that others use, rates say little about capstan. A reader must see that.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace capstan::bench {

// Seconds of all cores together since the machine has started.
struct MachineTimes {
  double busy = 0.0, idle = 0.0;
  double host = 0.0;  // "steal": a virtual machine wanted to run, and the host ran something else
};
// Reads the text of /proc/stat.
std::optional<MachineTimes> ParseMachineTimes(const std::string& text, double ticks_per_second);

struct ProcessTime {
  pid_t id = 0, parent = 0;
  double seconds = 0.0;  // of its threads, and of its children that have ended
};
// Reads the text of /proc/ID/stat.
std::optional<ProcessTime> ParseProcessTime(const std::string& text, double ticks_per_second);
// Returns the seconds of all descendants of `root`.
double SecondsOfDescendants(pid_t root, const std::vector<ProcessTime>& processes);

// Seconds of cores' time.
struct MachineUse {
  double available = 0.0;
  double busy = 0.0;  // of all processes
  double own = 0.0;   // of this process and its descendants
  double host = 0.0;

  void Add(const MachineUse& more);
  double ProcessesShare() const;  // of other processes, from 0 to 1
  double HostShare() const;
  double OthersShare() const { return ProcessesShare() + HostShare(); }
};
MachineUse UseBetween(const MachineTimes& before, const MachineTimes& after, double own_seconds);

class UseMeter {
 public:
  UseMeter();
  // Returns the use since this object was made.
  MachineUse UseSoFar() const;

 private:
  // All processes are looked through before the interval begins, and after it has ended, because that takes long.
  double descendants_;
  double self_;
  MachineTimes machine_;
};

}  // namespace capstan::bench
