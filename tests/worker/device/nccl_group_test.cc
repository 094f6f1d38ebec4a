// What a group of devices promises besides the results of its calls: their order among streams, and how the group ends.
// All ranks are threads of one process, each with its own device.
#include <algorithm>
#include <cstdlib>

#include "common/data/encoding.h"
#include "common/data/number16.h"
#include "tests/emulation/stream.h"
#include "tests/worker/collective/groups.h"
#include "tests/worker/device/host_group.h"
#include "worker/device/load_device.h"

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
using Bytes = std::vector<std::byte>;
using Memory = kernels::CudaContext::Memory;

// Sets environment variables for the groups that are formed while this object lives: a fault, and NCCL's library.
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
  Memory word = Put({0.0F});
  std::unique_ptr<DeviceGroup> group;

  // Submits an all-reduce of one number.
  Result<DeviceGroup::Ticket> SubmitWord() { return group->SubmitAllReduce({word.get(), 1}, In(kPatience)); }

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
  Status Gather(const DeviceArray& mine, void* all, int root, Deadline deadline) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->SubmitGather(mine, all, root, deadline));
    return group->Wait(ticket);
  }
};

using Body = std::function<Status(Member&)>;

// Forms a group and runs `body` for all ranks at once, each in its own thread. Returns their results; for a rank whose
// group was not formed, the reason.
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

// Returns bytes with any bits, including NaNs. No two chunks that are sent are alike.
Bytes BytesOf(int rank, std::size_t bytes) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    values[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(rank) * 97);
  }
  return values;
}

Status CheckGather(Member& member, const DeviceArray& like, int root, bool is_in_place) {
  const std::size_t bytes = like.count * BytesPerNumber(like.numbers);
  const int rank = member.group->rank();
  const Bytes own = BytesOf(rank, bytes);
  Bytes all(bytes * static_cast<std::size_t>(member.group->size())), expected;
  const auto place = static_cast<std::size_t>(rank) * bytes;
  if (is_in_place) std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(place));
  const Memory there = member.device.Put(all.data(), all.size()), outside = member.device.Put(own.data(), bytes);
  void* const mine = is_in_place ? static_cast<std::byte*>(there.get()) + place : outside.get();
  void* const at_root = rank == root ? there.get() : nullptr;
  CAPSTAN_RETURN_IF_ERROR(member.Gather({mine, like.count, like.numbers}, at_root, root, In(kPatience)));
  if (rank != root) return {};
  for (int from = 0; from < member.group->size(); ++from) {
    const Bytes one = BytesOf(from, bytes);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  member.device.Copy(all.data(), there.get(), all.size(), cudaMemcpyDeviceToHost, member.device.stream.get());
  CAPSTAN_RETURN_IF_ERROR(member.device.Synchronize(member.device.stream.get()));
  return Same(all == expected, std::to_string(like.count) + " numbers of each at rank " + std::to_string(root));
}

TEST_CASE("a gather brings each rank's numbers to their places at the root, its own from there or from outside",
          "[nccl]") {
  const Environment environment;
  const Encoding numbers = GENERATE(Encoding::kFp32, Encoding::kBf16, Encoding::kFp16);
  const int size = GENERATE(1, 2, 3, 4);
  const bool is_in_place = GENERATE(false, true);
  emulation::RunLate(GENERATE(false, true));
  CheckAll(RunMembers(size, [&](Member& member) -> Status {
    for (const std::size_t count : {0u, 1u, 1001u, 40001u}) {
      for (int root = 0; root < size; ++root) {
        CAPSTAN_RETURN_IF_ERROR(CheckGather(member, {nullptr, count, numbers}, root, is_in_place));
      }
    }
    return {};
  }));
  emulation::RunLate(false);
}

TEST_CASE("gathers among other calls in flight take what is there in their turn", "[nccl]") {
  const Environment environment;
  emulation::RunLate(GENERATE(false, true));
  CheckAll(RunMembers(3, [](Member& member) -> Status {
    constexpr std::size_t kCount = 30001, kRounds = 6;
    DeviceGroup& group = *member.group;
    Floats values = {1.0F, 2.0F, 3.0F};  // of each rank
    const Memory mine = member.Put(Floats(kCount, values[static_cast<std::size_t>(group.rank())]));
    std::vector<Memory> all;
    std::vector<Floats> expected(kRounds);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const auto root = static_cast<int>(round % 3);
      all.push_back(member.Put(Floats(3 * kCount)));
      const DeviceArray own{mine.get(), kCount};
      CAPSTAN_RETURN_IF_ERROR(group.SubmitGather(own, all.back().get(), root, In(kPatience)).status());
      CAPSTAN_RETURN_IF_ERROR(group.SubmitAllReduce(own, In(kPatience)).status());
      if (group.rank() != root) expected[round].resize(3 * kCount);
      for (const float value : values) {
        if (group.rank() == root) expected[round].insert(expected[round].end(), kCount, value);
      }
      values.assign(3, values[0] + values[1] + values[2]);
    }
    CAPSTAN_RETURN_IF_ERROR(group.Wait(2 * kRounds));
    for (std::size_t round = 0; round < kRounds; ++round) {
      const bool is_same = member.Read(all[round], 3 * kCount) == expected[round];
      CAPSTAN_RETURN_IF_ERROR(Same(is_same, "round " + std::to_string(round)));
    }
    return {};
  }));
  emulation::RunLate(false);
}

TEST_CASE("a gather that a rank does not come to ends at its deadline", "[nccl]") {
  const Environment environment;
  const int absent = GENERATE(1, 2);
  constexpr int kRoot = 1;
  constexpr std::size_t kCount = 20000;
  Guarded<int> gone;
  const std::vector<Status> ends = RunMembers(3, [&](Member& member) -> Status {
    const int rank = member.group->rank();
    const Memory all = member.Put(Floats(3 * kCount, 4.0F));
    const DeviceArray mine{static_cast<float*>(all.get()) + static_cast<std::size_t>(rank) * kCount, kCount};
    if (rank == absent) gone.AwaitUntil(In(kPatience), [](int count) { return count == 2; });
    const Status end = member.Gather(mine, all.get(), kRoot, In(milliseconds(200)));
    gone.Change([](int& count) { ++count; });
    CAPSTAN_RETURN_IF_ERROR(Same(member.Read(all, 3 * kCount) == Floats(3 * kCount, 4.0F), "other numbers"));
    return end;
  });
  for (const int rank : {kRoot, 2}) {  // rank 0 may have sent to the root by then
    CHECK(ends[static_cast<std::size_t>(rank)].code() == Code::kTimeout);
    CHECK_THAT(ends[static_cast<std::size_t>(rank)].message(), Contains("a gather of 20000 fp32 numbers was not done"));
  }
}

TEST_CASE("a gather whose own part cannot be copied ends the group with what the device says", "[nccl]") {
  const Environment environment;
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const bool is_root = member.group->rank() == 0;
    const Memory memory = member.Put(Floats(10, 1.0F));
    const Status end = member.Gather({memory.get(), 10}, nullptr, 0, In(is_root ? kPatience : milliseconds(200)));
    if (!is_root) return end;
    const Status later = member.SubmitWord().status();
    return Same(later.ToString() == end.ToString(), "a later call").ok() ? end : later;
  });
  CHECK(ends[0].code() == Code::kUnreachable);
  CHECK_THAT(ends[0].message(), Contains("the group's device, copying: cudaErrorInvalidValue"));
  CHECK(ends[1].code() == Code::kTimeout);
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
      later[static_cast<std::size_t>(member.group->rank())] = member.SubmitWord().status().ToString();
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
  const bool gathers = GENERATE(false, true);
  const Clock::time_point before = Clock::now();
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Memory memory = member.Put(Floats(10, 1.0F));
    CAPSTAN_RETURN_IF_ERROR(member.AllReduce(memory, 10, In(kPatience)));
    return gathers ? member.Gather({memory.get(), 5}, memory.get(), 0, In(kPatience))
                   : member.AllReduce(memory, 10, In(kPatience));
  });
  CHECK(Clock::now() - before < kPatience);
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kUnreachable);
    CHECK_THAT(end.message(), Contains("remote process exited or there was a network error") &&
                                  Contains("a peer is gone") && Contains("form the group again"));
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

TEST_CASE("ranks that gather something else end with an error, not with each other's numbers", "[nccl]") {
  struct Gather {
    std::size_t count;
    Encoding numbers;
    int root;
  };
  const Environment environment;
  const Gather first{10, Encoding::kFp32, 0};
  const Gather second =
      GENERATE(Gather{11, Encoding::kFp32, 0}, Gather{10, Encoding::kBf16, 0}, Gather{10, Encoding::kFp32, 1});
  const std::vector<Status> ends = RunMembers(2, [&](Member& member) -> Status {
    const Gather& call = member.group->rank() == 0 ? first : second;
    const Memory mine = member.Put(Floats(11, 1.0F)), all = member.Put(Floats(22, 4.0F));
    return member.Gather({mine.get(), call.count, call.numbers}, all.get(), call.root, In(kPatience));
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

// Forms a group of ranks with these options, each in its own thread. Returns each rank's status.
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
    if (member.group->rank() == 1) return {};  // so that the other member waits
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

TEST_CASE("calls in flight are bounded, those long done can be asked for, and what is none is refused", "[nccl]") {
  const Environment environment;
  Guarded<bool> is_full;
  CheckAll(RunMembers(2, [&](Member& member) -> Status {
    DeviceGroup& group = *member.group;
    if (group.rank() == 1) is_full.AwaitUntil(In(kPatience), [](bool is) { return is; });
    for (std::size_t call = 0; call < DeviceGroup::kCallsMax; ++call) {
      CAPSTAN_RETURN_IF_ERROR(member.SubmitWord().status());
    }
    const Status refused = group.rank() == 0 ? member.SubmitWord().status() : Status();
    is_full.Change([](bool& is) { is = true; });
    CAPSTAN_RETURN_IF_ERROR(Same((refused.code() == Code::kBusy) == (group.rank() == 0), "the bound"));
    CAPSTAN_RETURN_IF_ERROR(group.Wait(DeviceGroup::kCallsMax));
    for (int call = 0; call < 10; ++call) CAPSTAN_RETURN_IF_ERROR(member.SubmitWord().status());
    CAPSTAN_RETURN_IF_ERROR(group.Wait(DeviceGroup::kCallsMax + 10));
    CAPSTAN_RETURN_IF_ERROR(group.Wait(1));
    CAPSTAN_RETURN_IF_ERROR(group.OrderAfter(1, member.device.stream.get()));
    CAPSTAN_RETURN_IF_ERROR(Same(group.Wait(0).code() == Code::kInvalid, "call 0"));
    return Same(group.Wait(DeviceGroup::kCallsMax + 11).code() == Code::kInvalid, "a call that is none");
  }));
}

TEST_CASE("a group that goes while calls are in flight gives them up", "[nccl]") {
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
      CAPSTAN_ASSIGN_OR_RETURN(ModelDevice* const device, model->device());
      CAPSTAN_ASSIGN_OR_RETURN(const auto group,
                               device->CreateGroup({.rank = rank, .size = 2}, &rendezvous, In(kPatience)));
      CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, group->SubmitAllReduce({}, In(kPatience)));
      return group->Wait(ticket);
    }();
  });
  CheckAll(ends);

  kernels::CpuContext cpu(1);
  const auto model = CreateJobModel(cpu, Precision::kFp32, shape);
  REQUIRE(model.ok());
  CHECK((*model)->device().status().code() == Code::kUnsupported);
}

}  // namespace
}  // namespace capstan::train
