// Groups: a group with all its ranks in one process, on a mesh of any kind.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/group.h"
#include "worker/collective/in_process_mesh.h"
#include "worker/collective/secure_mesh.h"

namespace capstan::collective {

inline Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
inline constexpr std::chrono::seconds kPatience{60};

inline std::string NameOfTestRank(int rank) { return "w-" + std::to_string(rank); }

// The kinds of mesh in this build: "in process"; between processes "secure", and "gloo" if Gloo is there.
extern const std::vector<std::string> kKinds;

// Returns what makes a mesh between processes.
CreateMesh MakerOf(const std::string& kind);

// Returns connected meshes of this process, by rank. The default times are so long that no rank gives up on another one
// because the machine is slow. A test that breaks connections passes a shorter `failure_send`; one that slows them down
// passes a shorter `silence`.
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
  // `meshes`: by rank, all of this process.
  explicit Groups(std::vector<std::shared_ptr<Mesh>> meshes, const GroupOptions& options = {});

  // Returns a rank's end of the group.
  Group& operator[](int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  int size() const { return size_; }

  // Runs `body` for all ranks at once, each in its own thread. Returns their results by rank.
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
