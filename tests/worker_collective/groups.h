// Groups: all ranks of a group in one process, a thread for each, over any of the meshes that the contract is for.
#pragma once

#include <signal.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "worker/collective/gloo_mesh.h"
#include "worker/collective/group.h"
#include "worker/collective/in_process_mesh.h"

namespace capstan::collective {

inline Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
inline constexpr std::chrono::seconds kPatience{60};

inline std::string NameOfTestRank(int rank) { return "w-" + std::to_string(rank); }

inline bool HasGloo() {
  InProcessRendezvous alone(1);
  return CreateGlooMesh({0, 1, "127.0.0.1", {}}, &alone, In(kPatience)).status().code() != Code::kUnsupported;
}

// Adding a way for groups to be means adding it here.
inline const std::vector<std::string> kKinds =
    HasGloo() ? std::vector<std::string>{"in process", "gloo"} : std::vector<std::string>{"in process"};

inline void RunThreads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

class Groups {
 public:
  Groups(const std::string& kind, int size, const GroupOptions& options = {}) {
    INFO(kind << ", " << size << " ranks");
    std::vector<std::shared_ptr<Mesh>> meshes =
        kind == "gloo" ? GlooMeshes(size) : CreateInProcessMeshes(size, NameOfTestRank);
    for (auto& mesh : meshes) groups_.push_back(CreateGroup(std::move(mesh), options));
  }

  Group& operator[](int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(groups_.size()); }

  // `body` for each rank at once; what it returned, by rank.
  std::vector<Status> Run(const std::function<Status(Group&)>& body) {
    std::vector<Status> statuses(groups_.size());
    RunThreads(size(), [&](int rank) { statuses[static_cast<std::size_t>(rank)] = body((*this)[rank]); });
    return statuses;
  }
  void RunWell(const std::function<Status(Group&)>& body) {
    for (const Status& status : Run(body)) {
      INFO(status.ToString());
      REQUIRE(status.ok());
    }
  }

 private:
  static std::vector<std::shared_ptr<Mesh>> GlooMeshes(int size) {
    signal(SIGPIPE, SIG_IGN);
    InProcessRendezvous rendezvous(size, NameOfTestRank);
    std::vector<Result<std::shared_ptr<Mesh>>> results(static_cast<std::size_t>(size), Invalid("not formed"));
    RunThreads(size, [&](int rank) {
      results[static_cast<std::size_t>(rank)] =
          CreateGlooMesh({rank, size, "127.0.0.1", NameOfTestRank}, &rendezvous, In(kPatience));
    });
    std::vector<std::shared_ptr<Mesh>> meshes;
    for (auto& result : results) {
      INFO(result.status().ToString());
      REQUIRE(result.ok());
      meshes.push_back(std::move(*result));
    }
    return meshes;
  }

  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace capstan::collective
