// What a group of devices owes beyond the contract of all groups: its order among streams, and its end. All ranks are
// threads of one process, with a device each.
#include <cstdlib>

#include "common/number16.h"
#include "kernels/emulation/stream.h"
#include "tests/worker_collective/groups.h"
#include "tests/worker_device/host_group.h"
#include "worker/train/load_device.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;
using collective::Deadline;
using collective::DeviceArray;
using collective::DeviceGroup;
using collective::DeviceGroupOptions;
using collective::In;
using collective::InProcessRendezvous;
using collective::kPatience;
using collective::NameOfTestRank;
using collective::RunThreads;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;
using Memory = kernels::CudaContext::Memory;

// For groups that are formed while it lives.
class Environment {
 public:
  explicit Environment(const char* fault = "", const char* library = CAPSTAN_NCCL_STAND_IN) {
    setenv("CAPSTAN_NCCL_FAULT", fault, 1);
    setenv("CAPSTAN_EMULATED_NCCL", library, 1);
  }
  ~Environment() {
    unsetenv("CAPSTAN_NCCL_FAULT");
    unsetenv("CAPSTAN_EMULATED_NCCL");
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

struct Member {
  TestDevice device;
  std::unique_ptr<DeviceGroup> group;

  Floats Read(const Memory& memory, std::size_t count) {
    Floats values(count);
    device.Copy(values.data(), memory.get(), count * sizeof(float), cudaMemcpyDeviceToHost, device.stream.get());
    (void)device.Synchronize(device.stream.get());
    return values;
  }
  Memory Put(const Floats& values) {
    Memory memory = device.Put(values.data(), values.size() * sizeof(float));
    (void)device.Synchronize(device.stream.get());
    return memory;
  }
  Status AllReduce(const Memory& memory, std::size_t count, Deadline deadline) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->SubmitAllReduce({memory.get(), count}, deadline));
    return group->Wait(ticket);
  }
};

using Body = std::function<Status(Member&)>;

// `body` for each rank at once, in a thread with a group of its own; what it returned, or why there is no group.
std::vector<Status> RunMembers(int size, const Body& body, std::uint64_t generation = 1,
                               milliseconds patience = kPatience) {
  InProcessRendezvous rendezvous(size, NameOfTestRank);
  std::vector<Status> statuses(static_cast<std::size_t>(size));
  RunThreads(size, [&](int rank) {
    Member member;
    const DeviceGroupOptions options{.rank = rank, .size = size, .generation = generation, .name_of = NameOfTestRank};
    auto group = CreateNcclGroup(member.device.context, options, &rendezvous, In(patience));
    if (group.ok()) member.group = std::move(*group);
    statuses[static_cast<std::size_t>(rank)] = group.ok() ? body(member) : group.status();
  });
  return statuses;
}

void CheckAll(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) CHECK(status.ToString() == Status().ToString());
}

Status Same(bool good, const std::string& what) { return good ? Status() : Corrupt(what); }

TEST_CASE("an array is reduced after what computes it, and a stream that is ordered after it has the sum", "[nccl]") {
  const Environment environment;
  emulation::RunLate(GENERATE(false, true));
  CheckAll(RunMembers(3, [](Member& member) -> Status {
    constexpr std::size_t kCount = 40000, kBuckets = 6;
    const CudaStream back(TestDevice::NewStream());
    std::vector<Floats> values, results(kBuckets, Floats(kCount));
    std::vector<Memory> memories;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      values.emplace_back(kCount, static_cast<float>(bucket) + static_cast<float>(member.group->rank()));
      memories.push_back(member.device.Put(values.back().data(), kCount * sizeof(float)));
      CAPSTAN_ASSIGN_OR_RETURN(const auto ticket,
                               member.group->SubmitAllReduce({memories.back().get(), kCount}, In(kPatience)));
      CAPSTAN_RETURN_IF_ERROR(member.group->OrderAfter(ticket, back.get()));
      member.device.Copy(results[bucket].data(), memories.back().get(), kCount * sizeof(float), cudaMemcpyDeviceToHost,
                         back.get());
    }
    CAPSTAN_RETURN_IF_ERROR(member.device.Synchronize(back.get()));
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const Floats sum(kCount, 3.0F * static_cast<float>(bucket) + 3.0F);
      CAPSTAN_RETURN_IF_ERROR(Same(results[bucket] == sum, "bucket " + std::to_string(bucket)));
    }
    return member.group->Wait(kBuckets);
  }));
  emulation::RunLate(false);
}

TEST_CASE("the stream that computes does not wait for an array that it has handed over", "[nccl]") {
  const Environment environment;
  Guarded<bool> went_on;
  CheckAll(RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(100, 1.0F));
    if (member.group->rank() == 1) went_on.AwaitUntil(In(kPatience), [](bool is) { return is; });
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, member.group->SubmitAllReduce({memory.get(), 100}, In(kPatience)));
    const Memory other = member.Put(Floats(100, 7.0F));
    CAPSTAN_RETURN_IF_ERROR(member.device.Synchronize(member.device.stream.get()));
    went_on.Change([](bool& is) { is = true; });
    CAPSTAN_RETURN_IF_ERROR(member.group->Wait(ticket));
    return Same(member.Read(memory, 100) == Floats(100, 2.0F), "the sum");
  }));
}

TEST_CASE("arrays of 16 bits are reduced as they are", "[nccl]") {
  const Environment environment;
  const Encoding numbers = GENERATE(Encoding::kBf16, Encoding::kFp16);
  CheckAll(RunMembers(3, [&](Member& member) -> Status {
    const Floats mine = {1.0F + static_cast<float>(member.group->rank()), 0.5F, 1.0F, -2.0F, 100.0F};
    std::vector<std::byte> narrow(mine.size() * 2);
    Encode(numbers, mine, narrow.data());
    const Memory memory = member.device.Put(narrow.data(), narrow.size());
    const DeviceArray array{memory.get(), mine.size(), numbers};
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, member.group->SubmitAllReduce(array, In(kPatience)));
    CAPSTAN_RETURN_IF_ERROR(member.group->Wait(ticket));
    const cudaStream_t stream = member.device.stream.get();
    member.device.Copy(narrow.data(), memory.get(), narrow.size(), cudaMemcpyDeviceToHost, stream);
    CAPSTAN_RETURN_IF_ERROR(member.device.Synchronize(stream));
    Floats sum(mine.size());
    Decode(numbers, narrow.data(), sum.size(), sum.data());
    return Same(sum == Floats{6.0F, 1.5F, 3.0F, -6.0F, 300.0F}, "the sum");
  }));
}

TEST_CASE("a call that never completes ends at its deadline, its memory is let go of, and a new group works",
          "[nccl]") {
  std::vector<std::string> later(2);
  {
    const Environment environment("hang 2");
    const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
      Memory first = member.Put(Floats(1000, 1.0F)), second = member.Put(Floats(1000, 5.0F));
      CAPSTAN_RETURN_IF_ERROR(member.AllReduce(first, 1000, In(kPatience)));
      const Clock::time_point deadline = In(milliseconds(300));
      const Status end = member.AllReduce(second, 1000, deadline);
      CAPSTAN_RETURN_IF_ERROR(Same(Clock::now() >= deadline, "it ended before its deadline"));
      CAPSTAN_RETURN_IF_ERROR(Same(member.group->Wait(1).ok(), "the call before it"));
      later[static_cast<std::size_t>(member.group->rank())] =
          member.group->SubmitBarrier(In(kPatience)).status().ToString();
      CAPSTAN_RETURN_IF_ERROR(Same(member.Read(second, 1000) == Floats(1000, 5.0F), "memory was written to"));
      second.reset();
      return end;
    });
    for (const std::size_t rank : {0u, 1u}) {
      CHECK(ends[rank].code() == Code::kTimeout);
      CHECK_THAT(ends[rank].message(), Contains("an all-reduce of 1000 fp32 numbers was not done at its deadline") &&
                                           Contains(rank == 0 ? "rank 1 (w-1)" : "rank 0 (w-0)") &&
                                           Contains("under the next generation"));
      CHECK(later[rank] == ends[rank].ToString());
    }
  }
  const Environment environment;
  CheckAll(RunMembers(
      2,
      [](Member& member) -> Status {
        const Memory memory = member.Put(Floats(10, 1.0F));
        CAPSTAN_RETURN_IF_ERROR(member.AllReduce(memory, 10, In(kPatience)));
        return Same(member.Read(memory, 10) == Floats(10, 2.0F), "the sum");
      },
      2));
}

TEST_CASE("whoever comes after the others' deadline finds nobody, and writes nobody's memory", "[nccl]") {
  const Environment environment;
  Guarded<int> gone;
  const std::vector<Status> ends = RunMembers(3, [&](Member& member) -> Status {
    const bool is_late = member.group->rank() == 2;
    const Memory memory = member.Put(Floats(50000, 4.0F));
    if (is_late) gone.AwaitUntil(In(kPatience), [](int count) { return count == 2; });
    const Status end = member.AllReduce(memory, 50000, In(milliseconds(200)));
    gone.Change([](int& count) { ++count; });
    gone.AwaitUntil(In(kPatience), [](int count) { return count == 3; });
    CAPSTAN_RETURN_IF_ERROR(Same(member.Read(memory, 50000) == Floats(50000, 4.0F), "memory was written to"));
    return end;
  });
  for (const Status& end : ends) CHECK(end.code() == Code::kTimeout);
}

TEST_CASE("the host that waits for a stream behind a call goes on at the call's deadline", "[nccl]") {
  const Environment environment("hang 1");
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(10, 1.0F));
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket,
                             member.group->SubmitAllReduce({memory.get(), 10}, In(milliseconds(100))));
    CAPSTAN_RETURN_IF_ERROR(member.group->OrderAfter(ticket, member.device.stream.get()));
    CAPSTAN_RETURN_IF_ERROR(member.device.Synchronize(member.device.stream.get()));
    return member.group->Wait(ticket);
  });
  for (const Status& end : ends) CHECK(end.code() == Code::kTimeout);
}

TEST_CASE("an error that NCCL reports ends a call at once, with its text", "[nccl]") {
  const Environment environment("error 2");
  const Clock::time_point before = Clock::now();
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(10, 1.0F));
    CAPSTAN_RETURN_IF_ERROR(member.AllReduce(memory, 10, In(kPatience)));
    return member.AllReduce(memory, 10, In(kPatience));
  });
  CHECK(Clock::now() - before < kPatience);
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kUnreachable);
    CHECK_THAT(end.message(), Contains("remote process exited or there was a network error") &&
                                  Contains("a peer is gone") && Contains("form the group anew"));
  }
}

TEST_CASE("ranks that call something else end with an error, not with each other's numbers", "[nccl]") {
  const Environment environment;
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(11, 1.0F));
    return member.AllReduce(memory, member.group->rank() == 0 ? 10 : 11, In(kPatience));
  });
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kUnreachable);
    CHECK_THAT(end.message(), Contains("invalid usage") && Contains("calls something else than"));
  }
}

TEST_CASE("a group that NCCL cannot form says why, and one that it does not form ends at its deadline", "[nccl]") {
  {
    const Environment environment("init");
    for (const Status& end : RunMembers(2, [](Member&) { return Status(); })) {
      CHECK(end.code() == Code::kUnreachable);
      CHECK_THAT(end.message(), Contains("the forming of the group") && Contains("unhandled system error") &&
                                    Contains("no way to form it"));
    }
  }
  const Environment environment("absent");
  const std::vector<Status> ends = RunMembers(
      2, [](Member&) { return Status(); }, 1, milliseconds(200));
  for (const std::size_t rank : {0u, 1u}) {
    CHECK(ends[rank].code() == Code::kTimeout);
    CHECK_THAT(ends[rank].message(), Contains(rank == 0 ? "rank 1 (w-1)" : "rank 0 (w-0)"));
  }
}

// Of ranks with these options, each in a thread.
std::vector<Status> FormAll(const std::vector<DeviceGroupOptions>& all, InProcessRendezvous* rendezvous,
                            milliseconds patience = kPatience) {
  std::vector<Status> statuses(all.size());
  RunThreads(static_cast<int>(all.size()), [&](int thread) {
    const auto place = static_cast<std::size_t>(thread);
    Member member;
    statuses[place] = CreateNcclGroup(member.device.context, all[place], rendezvous, In(patience)).status();
  });
  return statuses;
}

TEST_CASE("a rank that does not come to the rendezvous is named, and so is one of another generation", "[nccl]") {
  const Environment environment;
  InProcessRendezvous alone(2, NameOfTestRank);
  const DeviceGroupOptions first{.rank = 0, .size = 2, .generation = 7, .name_of = NameOfTestRank};
  const Status absent = FormAll({first}, &alone, milliseconds(100))[0];
  CHECK(absent.code() == Code::kTimeout);
  CHECK_THAT(absent.message(), Contains("rank 1 (w-1)") && !Contains("rank 0"));

  InProcessRendezvous rendezvous(2, NameOfTestRank);
  const DeviceGroupOptions second{.rank = 1, .size = 2, .generation = 8, .name_of = NameOfTestRank};
  const std::vector<Status> ends = FormAll({first, second}, &rendezvous);
  for (const Status& end : ends) CHECK(end.code() == Code::kStale);
  CHECK_THAT(ends[0].message(), Contains("rank 1 (w-1) forms a group of generation 8, this rank one of 7"));
  CHECK_THAT(ends[1].message(), Contains("rank 0 (w-0) forms a group of generation 7, this rank one of 8"));
  CHECK(FormAll({{.rank = 2, .size = 2}}, &rendezvous)[0].code() == Code::kInvalid);
}

TEST_CASE("without NCCL it is said where it was looked for", "[nccl]") {
  InProcessRendezvous rendezvous(1);
  {
    const Environment environment("", "/nowhere/libcapstan_no_nccl.so");
    const Status end = FormAll({{}}, &rendezvous)[0];
    CHECK(end.code() == Code::kUnsupported);
    CHECK_THAT(end.message(), Contains("libcapstan_no_nccl.so was not found; it was looked for in /nowhere/") &&
                                  Contains("/usr/local/cuda/lib64/"));
  }
  {
    const Environment environment("", CAPSTAN_PLUGINS "/libcapstan_emulated.so");
    const Status end = FormAll({{}}, &rendezvous)[0];
    CHECK(end.code() == Code::kUnsupported);
    CHECK_THAT(end.message(), Contains("lacks functions") && Contains("ncclGetVersion"));
  }
  const Status end = FormAll({{}}, &rendezvous)[0];
  CHECK(end.code() == Code::kUnsupported);
  CHECK_THAT(end.message(), Contains("CAPSTAN_EMULATED_NCCL"));
}

TEST_CASE("an abort from another thread ends a wait by name, and the others end at their deadlines", "[nccl]") {
  const Environment environment;
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(10, 1.0F));
    CAPSTAN_ASSIGN_OR_RETURN(const auto first, member.group->SubmitAllReduce({memory.get(), 10}, In(kPatience)));
    CAPSTAN_RETURN_IF_ERROR(member.group->Wait(first));
    if (member.group->rank() == 1) return {};  // so that the other one waits
    std::thread aborter;
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, member.group->SubmitAllReduce({memory.get(), 10}, In(kPatience)));
    aborter = std::thread([&] { member.group->Abort(); });
    const Status end = member.group->Wait(ticket);
    aborter.join();
    return end;
  });
  CHECK(ends[0].code() == Code::kUnreachable);
  CHECK_THAT(ends[0].message(), Contains("aborted by rank 0 (w-0)"));
  CHECK(ends[1].ok());
}

TEST_CASE("calls on their way are bounded, those long done can be asked for, and what is none is refused", "[nccl]") {
  const Environment environment;
  Guarded<bool> is_full;
  CheckAll(RunMembers(2, [&](Member& member) -> Status {
    DeviceGroup& group = *member.group;
    if (group.rank() == 1) is_full.AwaitUntil(In(kPatience), [](bool is) { return is; });
    for (std::size_t call = 0; call < DeviceGroup::kCallsMax; ++call) {
      CAPSTAN_RETURN_IF_ERROR(group.SubmitBarrier(In(kPatience)).status());
    }
    const Status refused = group.rank() == 0 ? group.SubmitBarrier(In(kPatience)).status() : Status();
    is_full.Change([](bool& is) { is = true; });
    CAPSTAN_RETURN_IF_ERROR(Same((refused.code() == Code::kBusy) == (group.rank() == 0), "the bound"));
    CAPSTAN_RETURN_IF_ERROR(group.Wait(DeviceGroup::kCallsMax));
    for (int call = 0; call < 10; ++call) CAPSTAN_RETURN_IF_ERROR(group.SubmitBarrier(In(kPatience)).status());
    CAPSTAN_RETURN_IF_ERROR(group.Wait(DeviceGroup::kCallsMax + 10));
    CAPSTAN_RETURN_IF_ERROR(group.Wait(1));
    CAPSTAN_RETURN_IF_ERROR(group.OrderAfter(1, member.device.stream.get()));
    CAPSTAN_RETURN_IF_ERROR(Same(group.Wait(0).code() == Code::kInvalid, "call 0"));
    return Same(group.Wait(DeviceGroup::kCallsMax + 11).code() == Code::kInvalid, "a call that is none");
  }));
}

TEST_CASE("a group that goes while calls are on their way gives them up", "[nccl]") {
  const Environment environment("hang 1");
  CheckAll(RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(10, 1.0F));
    CAPSTAN_RETURN_IF_ERROR(member.group->SubmitAllReduce({memory.get(), 10}, In(kPatience)).status());
    member.group.reset();
    return Same(member.Read(memory, 10) == Floats(10, 1.0F), "memory was written to");
  }));
}

TEST_CASE("a plug-in that a worker loads forms a group for its model, and a model on the CPU has none", "[nccl]") {
  const Environment environment;
  const nn::MlpShape shape{.features = 3, .classes = 2, .hidden = {4}};
  const Result<const DevicePlugin*> plugin = LoadDevicePlugin(CAPSTAN_PLUGINS, DeviceKind::kEmulated);
  REQUIRE(plugin.ok());
  InProcessRendezvous rendezvous(2);
  std::vector<Status> ends(2);
  RunThreads(2, [&](int rank) {
    ends[static_cast<std::size_t>(rank)] = [&]() -> Status {
      CAPSTAN_ASSIGN_OR_RETURN(const auto model, (*plugin)->create({}, Precision::kFp32, shape));
      CAPSTAN_ASSIGN_OR_RETURN(const auto group,
                               model->CreateGroup({.rank = rank, .size = 2}, &rendezvous, In(kPatience)));
      CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->SubmitBarrier(In(kPatience)));
      return group->Wait(ticket);
    }();
  });
  CheckAll(ends);

  kernels::CpuContext cpu(1);
  const auto model = CreateJobModel(cpu, Precision::kFp32, shape);
  REQUIRE(model.ok());
  CHECK((*model)->CreateGroup({}, &rendezvous, In(kPatience)).status().code() == Code::kUnsupported);
}

}  // namespace
}  // namespace capstan::train
