#include "server/coordinator/set_aside.h"

#include <algorithm>
#include <utility>

namespace capstan::server {

void SetAside::Add(Process process) {
  processes_.push_back(std::move(process));
  if (processes_.size() > kMax) processes_.pop_front();
}

const std::string* SetAside::Find(std::uint64_t nonce) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const Process& process) { return process.nonce == nonce; });
  return found == processes_.end() ? nullptr : &found->why;
}

}  // namespace capstan::server
