// The members of a generation add up gradients on their devices: their sums, members that cannot take part, and how a
// group ends. Each member is a thread with a model on its own emulated device, over a group in this process.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <latch>

#include "common/data/encoding.h"
#include "common/wire/messages/group.h"
#include "tests/kernels/numbers.h"
#include "tests/worker/collective/groups.h"
#include "worker/allreduce/device_reducer.h"
#include "worker/device/create_device_model.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;
using collective::CollectiveThread;
using collective::RunThreads;
using std::chrono::milliseconds;
using Floats = std::vector<float>;

// Sets an environment variable while this object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

struct Subject {
  const char* name;
  Precision precision;
  nn::ModelShape shape;
  std::int64_t features;
};

constexpr std::int64_t kSamples = 5, kClasses = 7;

const Subject kMlp{"mlp", Precision::kFp32, nn::MlpShape{.features = 33, .classes = kClasses, .hidden = {301, 257}},
                   33};

std::vector<Subject> Subjects() {
  const nn::ImageSize image{.height = 5, .width = 6, .channels = 3};
  return {kMlp,
          {"resnet of 16 bits", Precision::kBf16,
           nn::ResnetShape{.image = image, .classes = kClasses, .depth = 18, .width = 4}, 90}};
}

struct Member {
  Member(int of_rank, const Subject& subject, DeviceReducerOptions options, std::uint32_t device)
      : rank(of_rank),
        model(CreateDeviceModel({.index = device}, subject.precision, subject.shape).value()),
        catalog(Catalog::Create(model->tensors()).value()),
        buckets(CutBuckets(catalog, 1 << 12)),
        features(subject.features),
        wide(kernels::RandomNumbers<float>(static_cast<std::int64_t>(catalog.element_count()), 1)),
        sum(kernels::Poison<float>(static_cast<std::int64_t>(catalog.element_count()))),
        devices(std::move(options), *model->device().value()) {
    for (float& weight : wide) weight = 0.1F + 0.2F * std::abs(weight);
    if (subject.precision == Precision::kFp32) return;
    narrow.resize(wide.size());
    Encode(Encoding::kBf16, wide, reinterpret_cast<std::byte*>(narrow.data()));
  }

  // Computes the model's gradients of a slot. Between BeginSlot and EndSlot they are added to the device's sum, else
  // they are written to `gradients`.
  Status Train(std::uint32_t slot, Floats& gradients) {
    const auto inputs = kernels::RandomNumbers<float>(kSamples * features, 7 + slot);
    const auto targets = kernels::RandomIndices(kSamples, static_cast<std::int32_t>(kClasses), 70 + slot);
    const nn::Batch batch{kSamples, inputs, {}, targets};
    return model
        ->Train({wide.data(), narrow.empty() ? nullptr : narrow.data(), 1}, gradients.data(), batch, {.slot = slot}, {},
                {})
        .status();
  }
  Status AddSlot(std::uint32_t slot, SlotSum mode) {
    devices.BeginSlot(kSamples + slot, mode);
    Floats untouched = kernels::Poison<float>(static_cast<std::int64_t>(sum.size()));
    CAPSTAN_RETURN_IF_ERROR(Train(slot, untouched));
    devices.EndSlot();
    return std::isnan(untouched.front()) && std::isnan(untouched.back()) ? Status() : Corrupt("it went to the host");
  }
  Status Reduce() {
    for (std::size_t i = 0; i < buckets.size(); ++i) CAPSTAN_RETURN_IF_ERROR(devices.AddBucket(i, buckets[i]));
    for (std::size_t i = 0; i < buckets.size(); ++i) CAPSTAN_RETURN_IF_ERROR(devices.Await(i));
    devices.StepDone();
    return {};
  }
  // Computes the sum over slots `first` to `last` on the host.
  Floats OnTheHost(std::uint32_t first, std::uint32_t last) {
    Floats all(sum.size(), 0.0F), gradients(sum.size());
    for (std::uint32_t slot = first; slot <= last; ++slot) {
      REQUIRE(Train(slot, gradients).ok());
      const auto samples = static_cast<float>(kSamples + slot);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = slot == first ? gradients[i] * samples : all[i] + gradients[i] * samples;
      }
    }
    return all;
  }
  Status Form(
      CollectiveThread* group, std::function<Status()> look_up = [] { return Status(); }) {
    const DeviceMembers members{{{"w0", ""}, {"w1", ""}}, rank, Generation{3}, look_up};
    return devices.Form(members, sum, buckets.size(), group);
  }

  const int rank;
  std::unique_ptr<JobModel> model;
  const Catalog catalog;
  std::vector<Bucket> buckets;
  const std::int64_t features;
  Floats wide;
  std::vector<std::uint16_t> narrow;
  Floats sum;  // outlives the devices' work in flight
  DeviceReducer devices;
};

struct Setting {
  Subject subject = kMlp;
  Encoding wire = Encoding::kFp32;
  Collective collective = Collective::kAuto;
  std::uint32_t device_step = 1;  // 0: all have the first device
  milliseconds patience = collective::kPatience;
};

using Body = std::function<Status(Member&, CollectiveThread&)>;

// The status of each of two members that run at once, and the notices that it gave.
struct Outcome {
  Status status[2];
  std::vector<std::string> said[2];
};

Outcome RunMembers(const Setting& setting, const Body& body) {
  const Variable devices("CAPSTAN_EMULATED_DEVICES", "2");
  const auto meshes = collective::CreateInProcessMeshes(2);
  Outcome outcome;
  RunThreads(2, [&](int rank) {
    const auto place = static_cast<std::size_t>(rank);
    DeviceReducerOptions options{setting.collective, setting.wire, setting.patience};
    options.on_notice = [&, place](const std::string& text) { outcome.said[place].push_back(text); };
    Member member(rank, setting.subject, std::move(options), setting.device_step * static_cast<std::uint32_t>(rank));
    CollectiveThread group(collective::CreateGroup(meshes[place]), 4);
    outcome.status[place] = body(member, group);
  });
  return outcome;
}

void CheckAll(const Outcome& outcome) {
  for (const Status& status : outcome.status) CHECK(status.ToString() == Status().ToString());
}

TEST_CASE("the sum on the devices is the host's to the bit, and in 16 bits rounded but for statistics", "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN);
  for (const Subject& subject : Subjects()) {
    for (const Encoding wire : {Encoding::kFp32, Encoding::kBf16}) {
      CAPTURE(subject.name, NameOf(wire));
      Floats parts[2], sums[2];
      std::vector<Bucket> buckets;
      CheckAll(RunMembers({.subject = subject, .wire = wire}, [&](Member& member, CollectiveThread& group) {
        CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
        CAPSTAN_CHECK(member.devices.is_formed());
        for (int round = 0; round < 2; ++round) {  // the second one starts with the first one's leftovers
          std::fill(member.sum.begin(), member.sum.end(), std::nanf(""));
          CAPSTAN_RETURN_IF_ERROR(member.AddSlot(static_cast<std::uint32_t>(member.rank), SlotSum::kReplace));
          CAPSTAN_RETURN_IF_ERROR(member.AddSlot(static_cast<std::uint32_t>(member.rank + 1), SlotSum::kAdd));
          CAPSTAN_RETURN_IF_ERROR(member.Reduce());
        }
        const auto place = static_cast<std::size_t>(member.rank), rank = place;
        parts[place] = member.OnTheHost(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(rank + 1));
        sums[place] = member.sum;
        if (rank == 0) buckets = member.buckets;
        return Status();
      }));
      CHECK((sums[0] == sums[1]));  // not to be printed
      CHECK(buckets.size() > 1);
      Floats expected(sums[0].size());
      for (const Bucket& bucket : buckets) {
        const auto part = [&](int rank) { return std::span(parts[rank]).subspan(bucket.flat_offset, bucket.count); };
        const auto into = std::span(expected).subspan(bucket.flat_offset, bucket.count);
        const bool narrow = wire != Encoding::kFp32 && !bucket.statistics;
        for (int rank : {0, 1}) {
          if (narrow) RoundTo(wire, part(rank));
        }
        for (std::size_t i = 0; i < bucket.count; ++i) into[i] = part(0)[i] + part(1)[i];
        if (narrow) RoundTo(wire, into);
      }
      CHECK((sums[0] == expected));
    }
  }
}

TEST_CASE("who has no samples in a step adds nothing to it", "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN);
  Floats sums[2], part;
  CheckAll(RunMembers({}, [&](Member& member, CollectiveThread& group) {
    CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
    if (member.rank == 0) {
      CAPSTAN_RETURN_IF_ERROR(member.AddSlot(4, SlotSum::kReplace));
    } else {
      member.devices.SetZero();
    }
    CAPSTAN_RETURN_IF_ERROR(member.Reduce());
    sums[member.rank] = member.sum;
    if (member.rank == 0) part = member.OnTheHost(4, 4);
    return Status();
  }));
  CHECK((sums[0] == part));
  CHECK((sums[1] == part));
}

TEST_CASE("there may be more buckets than a group of devices has calls", "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN);
  constexpr std::uint64_t kPieces = 2 * collective::DeviceGroup::kCallsMax + 9;
  Floats sums[2], parts[2];
  CheckAll(RunMembers({}, [&](Member& member, CollectiveThread& group) {
    const std::uint64_t all = member.sum.size();
    member.buckets.clear();
    for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
      const std::uint64_t begin = all * piece / kPieces, end = all * (piece + 1) / kPieces;
      member.buckets.push_back({.flat_offset = begin, .count = end - begin});
    }
    CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
    const auto slot = static_cast<std::uint32_t>(member.rank);
    CAPSTAN_RETURN_IF_ERROR(member.AddSlot(slot, SlotSum::kReplace));
    CAPSTAN_RETURN_IF_ERROR(member.Reduce());
    sums[slot] = member.sum;
    parts[slot] = member.OnTheHost(slot, slot);
    return Status();
  }));
  std::transform(parts[0].begin(), parts[0].end(), parts[1].begin(), parts[0].begin(), std::plus<>());
  CHECK((sums[0] == parts[0]));
  CHECK((sums[1] == parts[0]));
}

TEST_CASE("where a member cannot, all take the other way, and say why once", "[reducer]") {
  struct {
    const char* library;
    std::uint32_t device_step;
    const char* fault;
    std::vector<std::string> words;
  } const cases[] = {
      {"/nowhere/libcapstan_no_nccl.so", 1, "", {"\"w0\"", "libcapstan_no_nccl.so was not found"}},
      {CAPSTAN_NCCL_STAND_IN, 0, "", {"\"w0\" and \"w1\" compute on one device"}},
      {CAPSTAN_NCCL_STAND_IN, 1, "init", {"\"w0\": the forming of the group", "no way to form it"}},
  };
  for (const auto& one : cases) {
    const Variable library("CAPSTAN_EMULATED_NCCL", one.library), fault("CAPSTAN_NCCL_FAULT", one.fault);
    Setting setting{.device_step = one.device_step};
    const Outcome outcome = RunMembers(setting, [](Member& member, CollectiveThread& group) {
      for (int time = 0; time < 2; ++time) CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
      return member.devices.is_formed() ? Corrupt("it was formed") : Status();
    });
    CheckAll(outcome);
    for (const auto& said : outcome.said) {
      REQUIRE(said.size() == 1);
      CHECK_THAT(said[0], Contains("over Gloo"));
      for (const std::string& word : one.words) CHECK_THAT(said[0], Contains(word));
    }
    setting.collective = Collective::kNccl;
    const Outcome refused =
        RunMembers(setting, [](Member& member, CollectiveThread& group) { return member.Form(&group); });
    for (const Status& status : refused.status) {
      CHECK(status.code() == Code::kUnsupported);
      for (const std::string& word : one.words) CHECK_THAT(status.message(), Contains(word));
      CHECK_THAT(status.message(), Contains("set \"auto\""));
    }
  }
}

TEST_CASE("a bucket that the devices do not add up ends the group, and after some tries they are not asked again",
          "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN);
  const char* const fault = GENERATE("hang 1", "error 1");
  const std::string words = fault[0] == 'h' ? "in 0 s after all had handed it over" : "a peer is gone";
  const Variable variable("CAPSTAN_NCCL_FAULT", fault);
  const Outcome outcome = RunMembers({.patience = milliseconds(100)}, [&](Member& member, CollectiveThread& group) {
    for (int time = 0; time < DeviceTries::kMax; ++time) {
      CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
      CAPSTAN_CHECK(member.devices.is_formed());
      CAPSTAN_RETURN_IF_ERROR(member.AddSlot(0, SlotSum::kReplace));
      const Status status = member.Reduce();
      if (status.message().find(words) == std::string::npos) return Corrupt("it ended with: " + status.ToString());
      member.devices.BeginSlot(1, SlotSum::kReplace);  // it ends during this slot
      member.devices.End();
      std::fill(member.sum.begin(), member.sum.end(), 5.0F);  // the host's again: a sanitizer sees late writes
      auto gradients = kernels::Poison<float>(static_cast<std::int64_t>(member.sum.size()));
      CAPSTAN_RETURN_IF_ERROR(member.Train(0, gradients));
      if (std::isnan(gradients.front())) return Corrupt("gradients do not come to the host any more");
    }
    CAPSTAN_RETURN_IF_ERROR(member.Form(&group));
    return member.devices.is_formed() ? Corrupt("it was formed once more") : Status();
  });
  CheckAll(outcome);
  for (const auto& said : outcome.said) {
    REQUIRE(said.size() == 2);
    CHECK_THAT(said[1], Contains("ended 3 times before a step was done") && Contains("over Gloo"));
  }
}

TEST_CASE("who waits for the others' devices hears that the generation is over", "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN);
  std::latch ended(2);
  const Outcome outcome = RunMembers({}, [&](Member& member, CollectiveThread& group) {
    int looks = 0;
    bool counts = false;
    const auto look_up = [&] { return !counts || ++looks < 4 ? Status() : Status(Code::kStale, "it is over"); };
    CAPSTAN_RETURN_IF_ERROR(member.Form(&group, look_up));
    counts = true;
    Status status;
    if (member.rank == 0) {
      CAPSTAN_RETURN_IF_ERROR(member.AddSlot(0, SlotSum::kReplace));
      status = member.Reduce();
    }
    ended.arrive_and_wait();
    return status;
  });
  CHECK(outcome.status[0].code() == Code::kStale);
  CHECK(outcome.status[1].ok());
}

TEST_CASE("a worker that is to reduce on its device and cannot is refused before it begins", "[reducer]") {
  const Variable library("CAPSTAN_EMULATED_NCCL", "/nowhere/libcapstan_no_nccl.so");
  const auto model = CreateDeviceModel({}, kMlp.precision, kMlp.shape).value();
  ModelDevice& device = *model->device().value();
  CHECK(DeviceReducer({.collective = Collective::kAuto}, device).Check().ok());
  const Status status = DeviceReducer({.collective = Collective::kNccl}, device).Check();
  CHECK(status.code() == Code::kUnsupported);
  CHECK_THAT(status.message(), Contains("collective = \"nccl\"") && Contains("was not found") && Contains("\"auto\""));
}

}  // namespace
}  // namespace capstan::train
