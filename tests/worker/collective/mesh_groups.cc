// Defines what groups.h declares.
#include <signal.h>

#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

std::vector<std::shared_ptr<Mesh>> MeshesOf(CreateMesh create, int size, std::chrono::milliseconds failure_send,
                                            std::chrono::milliseconds silence) {
  signal(SIGPIPE, SIG_IGN);
  InProcessRendezvous rendezvous(size, NameOfTestRank);
  std::vector<Result<std::shared_ptr<Mesh>>> results(static_cast<std::size_t>(size), Invalid("not formed"));
  RunThreads(size, [&](int rank) {
    MeshOptions options{rank, size, "127.0.0.1", NameOfTestRank};
    options.answer = kPatience;
    options.failure_send = failure_send;
    options.silence = silence;
    results[static_cast<std::size_t>(rank)] = create(options, &rendezvous, In(kPatience));
  });
  std::vector<std::shared_ptr<Mesh>> meshes;
  for (auto& result : results) {
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    meshes.push_back(std::move(*result));
  }
  return meshes;
}

bool HasGloo() {
  InProcessRendezvous alone(1);
  return CreateGlooMesh({0, 1, "127.0.0.1", {}}, &alone, In(kPatience)).status().code() != Code::kUnsupported;
}

}  // namespace

// A new kind of mesh must be added here, so that the tests run on it.
const std::vector<std::string> kKinds = HasGloo() ? std::vector<std::string>{"in process", "secure", "gloo"}
                                                  : std::vector<std::string>{"in process", "secure"};

CreateMesh MakerOf(const std::string& kind) { return kind == "gloo" ? CreateGlooMesh : CreateSecureMesh; }

std::vector<std::shared_ptr<Mesh>> CreateMeshes(const std::string& kind, int size,
                                                std::chrono::milliseconds failure_send,
                                                std::chrono::milliseconds silence) {
  INFO(kind << ", " << size << " ranks");
  if (kind == "in process") return CreateInProcessMeshes(size, NameOfTestRank);
  return MeshesOf(MakerOf(kind), size, failure_send, silence);
}

Groups::Groups(const std::string& kind, int size, const GroupOptions& options)
    : Groups(CreateMeshes(kind, size), options) {}

Groups::Groups(std::vector<std::shared_ptr<Mesh>> meshes, const GroupOptions& options)
    : size_(static_cast<int>(meshes.size())) {
  for (auto& mesh : meshes) groups_.push_back(CreateGroup(std::move(mesh), options));
}

std::vector<Status> Groups::Run(const std::function<Status(Group&)>& body) {
  std::vector<Status> statuses(groups_.size());
  RunThreads(size_, [&](int rank) { statuses[static_cast<std::size_t>(rank)] = body((*this)[rank]); });
  return statuses;
}

}  // namespace capstan::collective
