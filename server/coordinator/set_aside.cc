#include "server/coordinator/set_aside.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/membership.h"

namespace capstan::server {

void SetAside::Add(Case added) {
  cases_.push_back(std::move(added));
  if (cases_.size() > kMax) cases_.pop_front();
}

const std::string* SetAside::Find(const std::string& worker) const {
  const auto found = std::find_if(cases_.begin(), cases_.end(), [&](const Case& one) { return one.worker == worker; });
  return found == cases_.end() ? nullptr : &found->why;
}

const std::string* SetAside::FindAnother(const Worker& worker, const std::string& other) const {
  const auto found = std::find_if(cases_.begin(), cases_.end(), [&](const Case& one) {
    const bool has_its_key = one.key && one.key == worker.principal.key;
    return one.other == other && one.worker != worker.name && !has_its_key;
  });
  return found == cases_.end() ? nullptr : &found->worker;
}

}  // namespace capstan::server
