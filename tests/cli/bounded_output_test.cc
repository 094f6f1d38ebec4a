#include "cli/terminal/bounded_output.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/launch/screen.h"
#include "common/base/status.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using std::chrono::milliseconds;

// The two ends of a pipe or of a pair of sockets: the tested object writes to one, and the test reads from the other.
class Ends {
 public:
  enum class Kind { kPipe, kSockets };
  explicit Ends(Kind kind) {
    std::array<int, 2> fds{};
    CAPSTAN_CHECK((kind == Kind::kPipe ? pipe2(fds.data(), O_CLOEXEC)
                                       : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data())) == 0);
    reader_ = fds[0];
    writer = fds[1];
    CAPSTAN_CHECK(fcntl(reader_, F_SETFL, O_NONBLOCK) == 0);
  }
  ~Ends() {
    CloseReader();
    close(writer);
  }
  void CloseReader() {
    if (reader_ >= 0) close(std::exchange(reader_, -1));
  }
  // Returns the text that was written and not read yet.
  std::string Read() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t size; (size = read(reader_, bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

  int writer = -1;

 private:
  int reader_ = -1;
};

// Writes lines until the output accepts no more and its queue is full. Returns all accepted text.
std::string FillUp(BoundedOutput* output) {
  std::string all;
  for (int i = 0;; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    if (!output->Write(line)) return all;
    all += line;
  }
}

TEST_CASE("an output that takes nothing is not waited for, and gets all that was taken for it in order",
          "[cli][screen]") {
  const Ends ends(GENERATE(Ends::Kind::kPipe, Ends::Kind::kSockets));
  BoundedOutput output(ends.writer);
  const std::string all = FillUp(&output);
  CHECK(output.waiting());
  CHECK((fcntl(ends.writer, F_GETFL) & O_NONBLOCK) == 0);  // other users of the open file still block
  std::string read;
  while (output.waiting()) {
    read += ends.Read();
    output.Drain(milliseconds(0));
  }
  read += ends.Read();
  CHECK((read == all));
}

TEST_CASE("text for a reader that went away is not kept", "[cli][screen]") {
  Ends ends(Ends::Kind::kPipe);
  const auto former = signal(SIGPIPE, SIG_IGN);  // as in PrepareProcess
  BoundedOutput output(ends.writer);
  FillUp(&output);
  ends.CloseReader();
  output.Flush();
  signal(SIGPIPE, former);
  CHECK_FALSE(output.waiting());
}

TEST_CASE("a file is written from where it is", "[cli][screen]") {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  REQUIRE(write(fd, "before\n", 7) == 7);
  CHECK(BoundedOutput(fd).Write("after\n"));
  close(fd);
  std::ifstream in(path);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "before\nafter\n");
}

TEST_CASE("lines that find no room are counted where they would have been", "[cli][screen]") {
  const Ends ends(Ends::Kind::kPipe);
  std::string read;
  constexpr std::size_t written = 100'000;
  {
    Screen screen({}, ends.writer);
    for (std::size_t i = 0; i < written; ++i) screen.Line("line " + std::to_string(i));
    for (std::string piece; !(piece = ends.Read()).empty(); screen.Flush()) read += piece;
    screen.Line("last");
    read += ends.Read();
  }
  const std::size_t note = read.find("warning: ");
  REQUIRE(note != read.npos);
  const std::size_t shown = static_cast<std::size_t>(std::count(read.begin(), read.begin() + note, '\n'));
  CHECK(read.substr(note) == "warning: " + std::to_string(written - shown) +
                                 " lines are left out here, because nothing took them; the logs have what the "
                                 "processes wrote\nlast\n");
}

}  // namespace
}  // namespace capstan::cli
