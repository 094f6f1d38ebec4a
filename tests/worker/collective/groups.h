// Groups: all ranks of a group at once, for each implementation that the contract covers.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/group.h"
#include "worker/collective/in_process_mesh.h"

namespace capstan::collective {

inline Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
inline constexpr std::chrono::seconds kPatience{60};

inline std::string NameOfTestRank(int rank) { return "w-" + std::to_string(rank); }

// Made by mesh_groups.cc, one thread per rank.
extern const std::vector<std::string> kKinds;

// Connects meshes of this process, and returns them by rank. Each rank answers, and sends its failure before it closes
// a connection, however late. A test that breaks connections passes another `failure_send`; one that slows them down
// passes another `silence`.
std::vector<std::shared_ptr<Mesh>> CreateMeshes(const std::string& kind, int size,
                                                std::chrono::milliseconds failure_send = kPatience,
                                                std::chrono::milliseconds silence = kPatience);

inline void RunThreads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

class Groups {
 public:
  Groups(const std::string& kind, int size, const GroupOptions& options = {});
  // Makes groups on meshes of one process, which are given by rank.
  explicit Groups(std::vector<std::shared_ptr<Mesh>> meshes, const GroupOptions& options = {});

  // Returns the group of a rank, if all ranks are in this process.
  Group& operator[](int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  int size() const { return size_; }

  // Runs `body` for all ranks at once; returns their results.
  std::vector<Status> Run(const std::function<Status(Group&)>& body);
  void RunWell(const std::function<Status(Group&)>& body) {
    for (const Status& status : Run(body)) {
      INFO(status.ToString());
      REQUIRE(status.ok());
    }
  }

 private:
  const int size_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace capstan::collective
