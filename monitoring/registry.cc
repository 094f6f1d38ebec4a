#include "monitoring/registry.h"

namespace capstan::monitoring {

std::vector<Family> Registry::Read() const {
  auto lists = [this] {
    const std::lock_guard lock(mutex_);
    return lists_;
  }();
  FamilyTable table;
  Describe(build_, table);
  std::apply(
      [&table](const auto&... list) {
        const auto describe_all = [&table](const auto& structs) {
          for (const auto& metrics : structs) Describe(*metrics, table);
        };
        (describe_all(list), ...);
      },
      lists);
  Describe(ReadProcess(), table);
  return std::move(table).Take();
}

}  // namespace capstan::monitoring
