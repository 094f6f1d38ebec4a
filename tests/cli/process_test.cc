#include "cli/run/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

// A child process with StopSignals, launched by this test. It reports its stop signals for each byte that it gets.
class Launched {
 public:
  Launched() {
    REQUIRE(pipe(orders_.data()) == 0);
    REQUIRE(pipe(answers_.data()) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Obey();
    Ask();  // it blocks signals from here on
  }
  ~Launched() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {orders_[0], orders_[1], answers_[0], answers_[1]}) close(fd);
  }

  int pid() const { return pid_; }
  // Returns the process's present stop signal; 0: none.
  int Ask() { return Answer().signal; }
  // Returns how many stop signals the process has counted.
  int AskCount() { return Answer().count; }

 private:
  struct Stops {
    int signal = -1, count = -1;
  };

  Stops Answer() {
    Stops stops;
    CHECK(write(orders_[1], "?", 1) == 1);
    CHECK(read(answers_[0], &stops, sizeof stops) == sizeof stops);
    return stops;
  }

  [[noreturn]] void Obey() {
    const EventWriter events(open("/dev/null", O_WRONLY));
    StopSignals signals(&events);
    for (char order = 0; read(orders_[0], &order, 1) == 1;) {
      Stops stops;
      stops.signal = signals.stop_signal();
      stops.count = signals.stop_count();
      if (write(answers_[1], &stops, sizeof stops) < 0) break;
    }
    _exit(0);
  }

  std::array<int, 2> orders_{}, answers_{};
  int pid_ = 0;
};

void SendFromSomebodyElse(int pid, int signal) {
  const int other = fork();
  if (other == 0) _exit(kill(pid, signal));
  int status = 1;
  REQUIRE(waitpid(other, &status, 0) == other);
  REQUIRE(status == 0);
}

TEST_CASE("a launched process stops when its launcher says so, and not for another sender", "[cli][process]") {
  Launched process;
  CHECK(process.Ask() == 0);
  SendFromSomebodyElse(process.pid(), SIGTERM);
  CHECK(process.Ask() == 0);
  SendFromSomebodyElse(process.pid(), kToldToStop);
  CHECK(process.Ask() == 0);
  kill(process.pid(), SIGTERM);
  CHECK(process.Ask() == SIGTERM);
}

TEST_CASE("a launcher's signal that was lost behind another sender's is made good", "[cli][process]") {
  Launched process;
  SendFromSomebodyElse(process.pid(), SIGTERM);
  kill(process.pid(), SIGTERM);  // one is pending already
  CHECK(process.Ask() == 0);
  kill(process.pid(), kToldToStop);
  CHECK(process.Ask() == SIGTERM);
}

TEST_CASE("a launcher's signal that was not lost counts once", "[cli][process]") {
  Launched process;
  kill(process.pid(), SIGTERM);
  kill(process.pid(), kToldToStop);
  CHECK(process.Ask() == SIGTERM);
  CHECK(process.AskCount() == 1);
  kill(process.pid(), SIGTERM);
  CHECK(process.AskCount() == 2);
}

}  // namespace
}  // namespace capstan::cli
