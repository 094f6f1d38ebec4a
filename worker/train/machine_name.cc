#include "worker/train/machine_name.h"

#include <fstream>

namespace capstan::train {

std::string MachineName() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace capstan::train
