#include "common/base/name.h"

#include <unistd.h>

#include <array>

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("names of hosts, ranks and processes are names", "[common][name]") {
  for (const char* name : {"w", "worker-0", "rank-12", "node7.cluster.example.org-12345", "GPU_box.2",
                           "7f3a1c52-9f0e-4a0c-8d5e-2b1f6f1d7c33"}) {
    INFO(name);
    CHECK(CheckName("a worker's name", name).ok());
  }
  CHECK(CheckName("a worker's name", std::string(kMemberNameBytesMax, 'x')).ok());
  CHECK(!CheckName("a worker's name", std::string(kMemberNameBytesMax + 1, 'x')).ok());
}

TEST_CASE("other texts are refused with the text and the characters that a name may have", "[common][name]") {
  for (const char* text : {"", "two words", "a/b", "\x1B[2J", "line\nline", "na\xC3\xAFve", "\xFF", "a\"b", "$(x)"}) {
    const Status status = CheckName("a worker's name", text);
    INFO(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().starts_with("a worker's name has 1 to 64 letters, digits, '.', '_' or '-', not \""));
    CHECK(status.message().find('\x1B') == std::string::npos);
    CHECK(status.message().find('\n') == std::string::npos);
  }
  const Status status = CheckName("a machine's name", std::string(60000, 'x'));
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().size() < 400);
}

TEST_CASE("every process has a name", "[common][name]") {
  CHECK(NameOfProcess("node7.example.org", 12) == "node7.example.org-12");
  CHECK(NameOfProcess("my host/\x07", 4194304) == "my-host---4194304");
  std::array<char, 256> host{};
  REQUIRE(gethostname(host.data(), host.size() - 1) == 0);
  CHECK(CheckName("a worker's name", NameOfProcess(host.data(), getpid())).ok());
}

TEST_CASE("names of hosts that are cut still differ where only their ends do", "[common][name]") {
  const std::string first = NameOfProcess(std::string(62, 'h') + "-0", 1),
                    second = NameOfProcess(std::string(62, 'h') + "-1", 1);
  CHECK(first != second);
  for (const std::string& name : {first, second, NameOfProcess(std::string(300, 'x'), 4194304)}) {
    INFO(name);
    CHECK(name.size() == kMemberNameBytesMax);
    CHECK(CheckName("a worker's name", name).ok());
  }
}

}  // namespace
}  // namespace capstan
