// The workers of a machine add up their parts, on the CPU and on emulated devices. The sums must have the bits that
// AddNodes gives along the tree. Each worker is a thread.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/base/random.h"
#include "common/data/encoding.h"
#include "tests/worker/collective/groups.h"
#include "worker/device/device_adder.h"
#include "worker/machine/host_adder.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;
using collective::In;
using collective::kPatience;
using collective::NameOfTestRank;
using collective::RunThreads;
using Floats = std::vector<float>;

constexpr SlotIndex kSlots = 7;
constexpr Init kZeros{InitKind::kZeros, 0.0F};

// Makes a catalog with several blocks and buckets of odd sizes. One tensor is a statistic, which stays fp32 in every
// encoding.
Catalog TestCatalog() {
  return Catalog::Create({{"a", {301}, kZeros, true},
                          {"b", {5, 77}, kZeros, true},
                          {"mean", {19}, kZeros, false, 0, TensorKind::kStatistic},
                          {"c", {40, 9}, kZeros, true}},
                         128)
      .value();
}

struct Part {
  Node node;
  std::uint64_t samples = 0;
  Floats flat;  // the client's layout: a block's numbers begin at its flat offset
};

// The parts of a step, by worker. The nodes are cut from the tree at random; some have no samples.
using Parts = std::vector<std::vector<Part>>;

void Cut(Node node, RandomStream& random, std::vector<Node>* cut) {
  if (node.IsLeaf() || random.Below(3) == 0) return cut->push_back(node);
  const SlotIndex split = SplitPoint(node);
  Cut({node.begin, split}, random, cut);
  Cut({split, node.end}, random, cut);
}

Parts RandomParts(const Catalog& catalog, Encoding encoding, int workers, RandomStream& random) {
  Parts parts(static_cast<std::size_t>(workers));
  std::vector<Node> cut;
  Cut({0, kSlots}, random, &cut);
  for (Node node : cut) {
    std::vector<Part>& of = parts[random.Below(parts.size())];
    if (of.size() == MachineHead::kPartsMax) continue;
    Part& part = of.emplace_back(Part{node, random.Below(4) * 3, Floats(catalog.element_count())});
    for (float& value : part.flat) value = static_cast<float>(random.Below(2000001)) / 1000.0F - 1000.0F;
    part.flat[0] = -0.0F;
    for (const Block& block : catalog.blocks()) {
      if (!node.IsLeaf()) continue;
      const std::span<float> numbers(part.flat.data() + block.flat_offset, block.count);
      Encode(block.EncodingIn(encoding), numbers, reinterpret_cast<std::byte*>(numbers.data()));
    }
  }
  return parts;
}

MachinePlan PlanOf(const Parts& parts) {
  std::vector<MachineHead> heads;
  for (const auto& of : parts) {
    MachineHead& head = heads.emplace_back(MachineHead{Generation{1}, Step{1}, true, {}});
    for (const Part& part : of) head.parts.push_back({part.node, part.samples});
  }
  return PlanMachineSums(heads, kSlots);
}

// Returns the expected bytes of a block's sums, one sum after the other, computed with AddUp on the host.
std::vector<std::byte> Expected(const Parts& parts, const MachinePlan& plan, const Block& block, Encoding encoding) {
  std::vector<StagedInput> inputs;
  for (const auto& of : parts) {
    for (const Part& part : of) {
      inputs.push_back({part.node, part.samples,
                        reinterpret_cast<const std::byte*>(part.flat.data() + block.flat_offset),
                        part.node.IsLeaf() ? block.EncodingIn(encoding) : Encoding::kFp32});
    }
  }
  std::vector<std::byte> all;
  for (const MachinePlan::Sum& sum : plan.sums) {
    Floats out(block.count);
    HostAddition addition;
    const StagedInput value = AddUp(sum.node, inputs, block.count, out.data(), addition);
    CHECK(value.samples == sum.samples);
    if (sum.samples == 0) continue;
    all.insert(all.end(), value.values, value.values + block.count * BytesPerNumber(value.encoding));
  }
  return all;
}

std::vector<std::byte> Found(const MachineStep& step, const Block& block, Encoding encoding) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < step.sums.size(); ++i) {
    const MachinePlan::Sum& sum = step.plan.sums[i];
    if (sum.samples == 0) continue;
    const auto* const bytes = reinterpret_cast<const std::byte*>(step.sums[i] + block.flat_offset);
    const Encoding of = sum.node.IsLeaf() ? block.EncodingIn(encoding) : Encoding::kFp32;
    all.insert(all.end(), bytes, bytes + block.count * BytesPerNumber(of));
  }
  return all;
}

using Maker = std::function<Result<std::unique_ptr<BucketAdder>>(int rank, const AdderOptions& options)>;

// Does one worker's part of a step, bucket by bucket. At the first worker `ready` is called for each block.
Status Work(BucketAdder* adder, const std::vector<Bucket>& buckets, const MachineStep& step,
            const std::function<void(BlockIndex)>& ready) {
  std::size_t finished = 0;
  for (std::size_t begun = 0; begun < buckets.size();) {
    CAPSTAN_RETURN_IF_ERROR(adder->Begin(step, buckets[begun++]));
    for (; begun - finished > adder->ahead_max(); ++finished) CAPSTAN_RETURN_IF_ERROR(adder->Finish(ready));
  }
  for (; finished < buckets.size(); ++finished) CAPSTAN_RETURN_IF_ERROR(adder->Finish(ready));
  return {};
}

Result<std::unique_ptr<BucketAdder>> FormedAdder(const collective::DeviceGroupOptions& group,
                                                 const AdderOptions& options, collective::Rendezvous* rendezvous) {
  CAPSTAN_ASSIGN_OR_RETURN(auto adder, CreateDeviceAdder(0, options));
  CAPSTAN_RETURN_IF_ERROR(adder->Form(group, rendezvous, In(kPatience)));
  return std::unique_ptr<BucketAdder>(std::move(adder));
}

void CheckSums(int workers, Encoding encoding, const Maker& make) {
  const Catalog catalog = TestCatalog();
  const std::vector<Bucket> buckets = CutBuckets(catalog, 1200);
  AdderOptions options{&catalog, encoding};
  for (const Bucket& bucket : buckets) options.count_max = std::max(options.count_max, bucket.count);
  REQUIRE(buckets.size() > 3);
  RandomStream random(static_cast<std::uint64_t>(workers * 10 + static_cast<int>(encoding)));
  std::vector<Parts> steps;
  std::vector<MachinePlan> plans;
  while (steps.size() < 12) {
    Parts parts = RandomParts(catalog, encoding, workers, random);
    MachinePlan plan = PlanOf(parts);
    if (plan.sums.empty()) continue;
    steps.push_back(std::move(parts));
    plans.push_back(std::move(plan));
  }
  std::vector<Status> ends(static_cast<std::size_t>(workers));
  std::vector<std::vector<std::byte>> found;  // step by step; within a step, the last block first
  RunThreads(workers, [&](int rank) {
    auto adder = make(rank, options);
    Status& end = ends[static_cast<std::size_t>(rank)] = adder.status();
    for (std::size_t i = 0; i < steps.size() && end.ok(); ++i) {
      MachineStep step{plans[i], {}, {}, {}};
      for (const Part& part : steps[i][static_cast<std::size_t>(rank)]) {
        step.nodes.push_back(part.node);
        const auto* const flat = reinterpret_cast<const std::byte*>(part.flat.data());
        step.parts.push_back(part.samples == 0 ? nullptr : flat);
      }
      std::vector<Floats> sums(rank == 0 ? step.plan.sums.size() : 0, Floats(catalog.element_count(), -7.0F));
      for (Floats& sum : sums) step.sums.push_back(sum.data());
      end = Work(adder->get(), buckets, step,
                 [&](BlockIndex index) { found.push_back(Found(step, catalog.blocks()[index], encoding)); });
    }
  });
  for (const Status& end : ends) {
    INFO(end.ToString());
    REQUIRE(end.ok());
  }
  std::vector<std::vector<std::byte>> expected;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (BlockIndex block = static_cast<BlockIndex>(catalog.blocks().size()); block-- > 0;) {
      expected.push_back(Expected(steps[i], plans[i], catalog.blocks()[block], encoding));
    }
  }
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == expected[i]);
}

TEST_CASE("hosts add up the bits of the job's tree", "[local]") {
  const int workers = GENERATE(2, 3);
  const Encoding encoding = GENERATE(Encoding::kFp32, Encoding::kBf16, Encoding::kFp16);
  collective::Groups groups("in process", workers);
  CheckSums(workers, encoding, [&](int rank, const AdderOptions& options) -> Result<std::unique_ptr<BucketAdder>> {
    return CreateHostAdder(options, &groups[rank]);
  });
}

TEST_CASE("devices add up the bits of the job's tree", "[local]") {
  const int workers = GENERATE(1, 2, 3, 4);
  const Encoding encoding = GENERATE(Encoding::kFp32, Encoding::kBf16, Encoding::kFp16);
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  collective::InProcessRendezvous rendezvous(workers, NameOfTestRank);
  CheckSums(workers, encoding, [&](int rank, const AdderOptions& options) {
    return FormedAdder({.rank = rank, .size = workers, .name_of = NameOfTestRank}, options, &rendezvous);
  });
}

// Returns the results of two workers whose devices never finish the second bucket's gather.
std::vector<Status> Hang(std::chrono::milliseconds patience, const std::function<Status()>& watch) {
  setenv("CAPSTAN_EMULATED_NCCL", CAPSTAN_NCCL_STAND_IN, 1);
  setenv("CAPSTAN_NCCL_FAULT", "hang 2", 1);
  const Catalog catalog = TestCatalog();
  const std::vector<Bucket> buckets = CutBuckets(catalog, 1200);
  collective::InProcessRendezvous rendezvous(2, NameOfTestRank);
  std::vector<Status> ends(2);
  RunThreads(2, [&](int rank) {
    const AdderOptions options{&catalog, Encoding::kFp32, catalog.element_count(), patience};
    collective::DeviceGroupOptions group{.rank = rank, .size = 2, .name_of = NameOfTestRank};
    group.watch = watch;
    auto adder = FormedAdder(group, options, &rendezvous);
    Status& end = ends[static_cast<std::size_t>(rank)] = adder.status();
    if (!end.ok()) return;
    const Floats flat(catalog.element_count(), 1.0F);
    Floats sum(catalog.element_count());
    const auto slot = static_cast<SlotIndex>(rank);
    MachineStep step{{{{0, 0, {0, 1}, 1}, {1, 0, {1, 2}, 1}}, {{{0, 2}, 2}}, 1},
                     {{slot, slot + 1}},
                     {reinterpret_cast<const std::byte*>(flat.data())},
                     {}};
    if (rank == 0) step.sums = {sum.data()};
    end = Work(adder->get(), buckets, step, [](BlockIndex) {});
  });
  unsetenv("CAPSTAN_NCCL_FAULT");
  return ends;
}

TEST_CASE("devices that do not end a sum are given up when patience does", "[local]") {
  for (const Status& end : Hang(std::chrono::milliseconds(300), [] { return Status(); })) {
    CHECK(end.code() == Code::kTimeout);
    CHECK_THAT(end.message(), Contains("a gather of") && Contains("not done at its deadline"));
  }
}

TEST_CASE("devices that do not end a sum are given up when their group is over", "[local]") {
  const auto watch = [] { return Status(Code::kStale, "the group is over"); };
  for (const Status& end : Hang(std::chrono::hours(1), watch))
    CHECK_THAT(end.ToString(), Contains("the group is over"));
}

}  // namespace
}  // namespace capstan::train
