// capstan_stranger: a process that is no part of a job, and sends the job's coordinator what would do harm if it were
// believed: `capstan_stranger HOST:PORT ACT NAME SECONDS`. It begins as soon as the coordinator listens, acts for so long
// and prints what it did.
//
// Kind: a program for tests.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "common/base/random.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/view.h"
#include "common/wire/zmq_transport.h"

namespace capstan {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class Stranger {
 public:
  Stranger(const std::string& coordinator, std::string name, double seconds)
      : name_(std::move(name)),
        seconds_(seconds),
        transport_(CreateZmqTransport({})),
        coordinator_(std::move(transport_->Connect("tcp://" + coordinator)).value()) {}

  // Waits for the job file, and then acts.
  int Act(const std::string& act) {
    const std::map<std::string, std::function<void()>> acts = {
        {"hello", [this] { SayHello(Term{}, std::uint64_t{1} << 52); }},
        {"hello-term", [this] { SayHello(Term{std::uint64_t{1} << 48}, std::uint64_t{1} << 52); }},
        {"catalog", [this] { BeginAsWorker({{"x", {1}}}, 0); }},
        {"rank", [this] { BeginAsWorker({{"x", {1}}}, 1); }},
        {"member", [this] { BeginAsMember(0); }},
        {"lost", [this] { BeginAsMember(0); }},
        {"flood", [this] { Flood(); }},
    };
    const auto found = acts.find(act);
    if (found == acts.end()) return 2;
    Until(60.0, [&] { return !view_.job_file.empty(); }, [this] { Send(Question()); });
    if (view_.job_file.empty()) return 1;
    act_ = act;
    std::printf("begins\n");
    std::fflush(stdout);
    found->second();
    std::printf("sent %llu messages, has %s session\n", static_cast<unsigned long long>(sent_),
                session_.value == 0 ? "no" : "a");
    return 0;
  }

 private:
  void Send(Header header) {
    if (transport_->Send(coordinator_, {std::move(header), {}}).ok()) ++sent_;
  }
  // Calls `step` every `every` and takes answers, until `done` or for so many seconds.
  void Until(double seconds, const std::function<bool()>& done, const std::function<void()>& step,
             milliseconds every = milliseconds(50)) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (auto next = Clock::now(); Clock::now() < end && !done();) {
      if (Clock::now() >= next) {
        next += every;
        step();
      }
      transport_->Poll(every, [this](PeerId, const Message& message) { Take(message); });
    }
  }
  void Take(const Message& message) {
    if (message.header.Is<Ping>() && hello_) return Send(*hello_);  // it answers as a shard would
    if (const auto* view = message.header.As<View>()) {
      const std::string job_file = view_.job_file;
      const std::vector<TensorSpec> catalog = view_.catalog;
      view_ = *view;
      if (view_.job_file.empty()) view_.job_file = job_file;
      if (view_.catalog.empty()) view_.catalog = catalog;
      if (view->session.value != 0) session_ = view->session;
    }
    if (const auto* error = message.header.As<Error>()) {
      if (error->code == Code::kStale) session_ = {};
      Learn(error->message);
    }
  }
  // Takes from a refusal what the job's workers declare.
  void Learn(const std::string& text) {
    const auto number_after = [&](const std::string& word) {
      const std::size_t at = text.find(word);
      return at == text.npos ? 0 : std::strtoull(text.c_str() + at + word.size(), nullptr, 10);
    };
    const std::string own_class = "the job's is \"";
    if (const std::size_t at = text.find(own_class); at != text.npos) {
      const std::size_t begin = at + own_class.size(), end = text.find('"', begin);
      join_.numeric_class = text.substr(begin, end - begin);
      join_.numeric_fingerprint = number_after(own_class + join_.numeric_class + "\" (probe ");
    }
    if (text.find("reads other data") != text.npos) join_.data_fingerprint = number_after("than the job (");
  }

  Join Question() {
    Join join;
    join.worker = name_;
    join.nonce = nonce_;
    return join;
  }

  void SayHello(Term term, std::uint64_t incarnation) {
    const Result<JobConfig> config = ParseJobConfig(view_.job_file, "the job file");
    Until(seconds_, [] { return false; }, [&, this] {
      Hello hello;
      hello.job = view_.job;
      hello.incarnation = Incarnation{incarnation};
      hello.term = std::max(term, view_.term);
      hello.generation = view_.generation;
      hello.config_hash = HashJobConfig(*config);
      hello.endpoint = "tcp://127.0.0.1:9";
      hello_ = hello;
      Send(std::move(hello));
    });
  }

  void BeginAsWorker(std::vector<TensorSpec> catalog, std::uint32_t rank) {
    join_ = Question();
    join_.catalog = std::move(catalog);
    join_.rank = rank;
    join_.ranks = rank == 0 ? 0 : view_.slot_count;
    Until(seconds_, [] { return false; }, [this] { JoinOrBeat(); }, milliseconds(500));
  }
  // Joins with what the job's own workers declare, and then only beats.
  void BeginAsMember(std::uint32_t rank) {
    join_ = Question();
    join_.rank = rank;
    Until(seconds_, [] { return false; }, [this] {
      join_.catalog = view_.catalog;
      if (join_.catalog.empty()) return Send(Question());  // no worker of the job has joined yet
      JoinOrBeat();
    }, milliseconds(500));
  }
  void JoinOrBeat() {
    if (session_.value == 0) return Send(join_);
    Heartbeat beat;
    beat.session = session_;
    beat.nonce = nonce_;
    if (act_ == "lost") {
      beat.generation = view_.generation;
      beat.group = GroupState::kLost;
      beat.group_text = "gone " + std::to_string(sent_);
    }
    Send(std::move(beat));
  }

  // About 3,000 Joins a second, each as if from another start of a process.
  void Flood() {
    join_ = Question();
    Until(60.0, [this] { return session_.value != 0; }, [this] {
      join_.catalog = view_.catalog;
      Send(join_.catalog.empty() ? Question() : join_);
    }, milliseconds(500));
    Until(seconds_, [] { return false; }, [this] {
      for (int i = 0; i < 30; ++i) {
        join_.nonce = random_.Next64();
        Send(join_);
      }
    }, milliseconds(10));
  }

  const std::string name_;
  const double seconds_;
  const std::unique_ptr<Transport> transport_;
  const PeerId coordinator_;
  RandomStream random_{static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()), 1};
  const std::uint64_t nonce_ = random_.Next64();
  std::string act_;
  std::uint64_t sent_ = 0;
  View view_;
  SessionId session_;
  Join join_;
  std::optional<Hello> hello_;
};

}  // namespace
}  // namespace capstan

int main(int count, char** words) {
  if (count != 5) return 2;
  return capstan::Stranger(words[1], words[3], std::atof(words[4])).Act(words[2]);
}
