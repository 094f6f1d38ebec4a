// Rendezvous: how ranks that are not connected yet exchange their addresses.
//
// Kind:   shared.
// Fails:  as whatever carries the exchange. InProcessRendezvous: kTimeout, which names the missing ranks.
// Why:    a full mesh needs only one exchange, and anything that all ranks can reach can carry it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/mailbox.h"
#include "worker/collective/mesh_failure.h"

namespace capstan::collective {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Offers this rank's `bytes` and waits for those of all ranks; returns them by rank.
  virtual Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) = 0;
};

// A rendezvous for threads of one process, for one exchange among `size` ranks.
class InProcessRendezvous : public Rendezvous {
 public:
  explicit InProcessRendezvous(int size, NameOfRank name_of = {}) : size_(size), name_of_(std::move(name_of)) {}

  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    come_.Change([&](auto& come) { come[rank] = std::move(bytes); });
    const bool all = come_.AwaitUntil(deadline, [this](const auto& come) { return come.size() == std::size_t(size_); });
    return come_.With([&](const auto& come) -> Result<std::vector<std::string>> {
      if (!all) return Missing(come);
      std::vector<std::string> texts;
      for (const auto& [_, text] : come) texts.push_back(text);
      return texts;
    });
  }

 private:
  Status Missing(const std::map<int, std::string>& come) const {
    RankSet missing;
    for (int rank = 0; rank < size_; ++rank) missing.set(static_cast<std::size_t>(rank), !come.contains(rank));
    return Timeout("the group was not formed in time; not there: " + NamesOf(missing, name_of_) +
                   "; see whether they run, and form it again");
  }

  const int size_;
  const NameOfRank name_of_;
  Guarded<std::map<int, std::string>> come_;
};

}  // namespace capstan::collective
