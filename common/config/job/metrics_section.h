// MetricsSection: section [metrics] of the job file.
//
// Kind:   values.
#pragma once

#include <string>
#include <vector>

namespace capstan {

struct MetricsSection {
  // Host "auto": the coordinator's host; in other processes their address towards it. Without a token and a certificate
  // it is a loopback address.
  std::string listen = "auto:0";
  std::string token_file = {};             // a file with the secret that readers send; empty: none is asked for
  std::string certificate = {}, key = {};  // files in PEM for https; empty: http
  std::vector<std::string> hosts = {};     // names by which readers call the processes, besides their addresses
  bool tensorboard = false;                // whether the coordinator writes curves into RUN_DIR/tensorboard
  bool operator==(const MetricsSection&) const = default;
};

}  // namespace capstan
