#include "common/base/mailbox.h"

#include <memory>
#include <thread>

#include "tests/catch.h"

namespace capstan {
namespace {

using std::chrono::hours;
using std::chrono::steady_clock;

TEST_CASE("values leave a mailbox in the order they came", "[common][mailbox]") {
  Mailbox<int> mailbox(3);
  CHECK_FALSE(mailbox.TryPop());
  for (int i = 0; i < 3; ++i) CHECK(mailbox.Push(int{i}).ok());
  CHECK(mailbox.Push(3).code() == Code::kBusy);
  for (int i = 0; i < 3; ++i) CHECK(mailbox.TryPop() == i);
  CHECK(mailbox.Push(4).ok());
}

TEST_CASE("a value that a full mailbox refuses stays with its owner", "[common][mailbox]") {
  Mailbox<std::unique_ptr<int>> mailbox(1);
  CHECK(mailbox.Push(std::make_unique<int>(1)).ok());
  auto second = std::make_unique<int>(2);
  CHECK(mailbox.Push(std::move(second)).code() == Code::kBusy);
  CHECK(second != nullptr);
}

TEST_CASE("a deadline ends the wait for a value", "[common][mailbox]") {
  Mailbox<int> mailbox(1);
  CHECK_FALSE(mailbox.PopUntil(steady_clock::now()));
  CHECK_FALSE(mailbox.PopUntil(steady_clock::now() + std::chrono::milliseconds(1)));
}

TEST_CASE("a closed mailbox refuses values and gives out what it holds", "[common][mailbox]") {
  Mailbox<int> mailbox(2);
  CHECK(mailbox.Push(1).ok());
  mailbox.Close();
  CHECK(mailbox.closed());
  CHECK(mailbox.Push(2).code() == Code::kRefused);
  CHECK(mailbox.PopUntil(steady_clock::now() + hours(1)) == 1);
  CHECK_FALSE(mailbox.PopUntil(steady_clock::now() + hours(1)));
}

TEST_CASE("who waits on a mailbox is woken by a value and by its end", "[common][mailbox]") {
  Mailbox<int> requests(4), answers(4);
  std::thread other([&] {
    while (const std::optional<int> request = requests.PopUntil(steady_clock::now() + hours(1))) {
      if (!answers.Push(*request + 1).ok()) break;
    }
    answers.Close();
  });
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(requests.Push(int{i}).ok());
    REQUIRE(answers.PopUntil(steady_clock::now() + hours(1)) == i + 1);
  }
  requests.Close();
  CHECK_FALSE(answers.PopUntil(steady_clock::now() + hours(1)));
  other.join();
}

}  // namespace
}  // namespace capstan
