// The contract of groups on every kind of mesh: results, bits, bytes.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/random.h"
#include "common/data/encoding.h"
#include "common/data/number16.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Floats = std::vector<float>;

// Returns small whole numbers, whose sums are exact in any order and in 16 bits.
Floats Whole(int rank, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11);
  return values;
}

// Returns numbers whose sum depends on the order of additions.
Floats Mixed(int rank, std::size_t count) {
  Floats values(count);
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(rank) * 777U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    const auto exponent = static_cast<int>(state >> 28) - 8;
    value = std::ldexp(static_cast<float>(static_cast<std::int32_t>(state << 8 >> 8)) * 0x1p-24F - 0.5F, exponent);
  }
  return values;
}

Floats SumOf(int size, std::size_t count) {
  Floats sum(count, 0.0F);
  for (int rank = 0; rank < size; ++rank) {
    const Floats values = Whole(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Status Check(bool good, const std::string& what, const Group& group) {
  return good ? Status() : Corrupt(what + " is wrong on rank " + std::to_string(group.rank()));
}

std::vector<std::size_t> SizesFor(int ranks) {
  return {0, 1, static_cast<std::size_t>(ranks) - 1, 17, 1001, (1u << 20) / sizeof(float)};
}

Status CheckSums(Group& group, std::size_t count) {
  const int size = group.size();
  const Floats sum = SumOf(size, count);
  Floats data = Whole(group.rank(), count);
  CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, In(kPatience)));
  CAPSTAN_RETURN_IF_ERROR(Check(data == sum, "AllReduce", group));

  const Part part = PartOf(count, size, group.rank());
  const auto begin = static_cast<std::ptrdiff_t>(part.begin), end = begin + static_cast<std::ptrdiff_t>(part.count);
  std::fill(data.begin(), data.begin() + begin, -1.0F);
  std::fill(data.begin() + end, data.end(), -1.0F);
  CAPSTAN_RETURN_IF_ERROR(group.AllGather(data, In(kPatience)));
  return Check(data == sum, "AllGather", group);
}

Status CheckRooted(Group& group, std::size_t count, int root) {
  const Floats own = Whole(group.rank(), count);
  Floats data = own;
  CAPSTAN_RETURN_IF_ERROR(group.Broadcast(data, root, In(kPatience)));
  CAPSTAN_RETURN_IF_ERROR(Check(data == Whole(root, count), "Broadcast", group));

  data = own;
  CAPSTAN_RETURN_IF_ERROR(group.Reduce(data, root, In(kPatience)));
  const bool is_root = group.rank() == root;
  CAPSTAN_RETURN_IF_ERROR(Check(data == (is_root ? SumOf(group.size(), count) : own), "Reduce", group));

  Floats all(is_root ? count * static_cast<std::size_t>(group.size()) : 0, -1.0F), expected;
  CAPSTAN_RETURN_IF_ERROR(group.Gather(own, root, all, In(kPatience)));
  for (int rank = 0; is_root && rank < group.size(); ++rank) {
    const Floats one = Whole(rank, count);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  return Check(all == expected, "Gather", group);
}

TEST_CASE("every collective gives its result, for 1 to 5 ranks and arrays of all sizes", "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const int ranks = GENERATE(range(1, 6));
  const std::size_t chunk_bytes = GENERATE(64u << 10, 512u << 10);
  Groups groups(kind, ranks, {.chunk_bytes = chunk_bytes});
  groups.RunWell([&](Group& group) {
    for (const std::size_t count : SizesFor(ranks)) {
      CAPSTAN_RETURN_IF_ERROR(CheckSums(group, count));
      for (int root = 0; root < ranks; ++root) CAPSTAN_RETURN_IF_ERROR(CheckRooted(group, count, root));
      CAPSTAN_RETURN_IF_ERROR(group.Barrier(In(kPatience)));
    }
    return Status();
  });
}

TEST_CASE("four workers reduce ones(2,2) * (rank + 1) to 10, and a broadcast brings [100, 200]", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 4);
  groups.RunWell([](Group& group) {
    Floats ones(4, static_cast<float>(group.rank() + 1));
    CAPSTAN_RETURN_IF_ERROR(group.AllReduce(ones, In(kPatience)));
    CAPSTAN_RETURN_IF_ERROR(Check(ones == Floats(4, 10.0F), "AllReduce", group));
    Floats pair = group.rank() == 0 ? Floats{100, 200} : Floats{0, 0};
    CAPSTAN_RETURN_IF_ERROR(group.Broadcast(pair, 0, In(kPatience)));
    return Check(pair == Floats{100, 200}, "Broadcast", group);
  });
}

// Returns the result that each rank gets from an all-reduce of Mixed's numbers.
std::vector<Floats> ReducedMixed(const std::string& kind, int ranks, std::size_t count, const GroupOptions& options) {
  std::vector<Floats> results(static_cast<std::size_t>(ranks));
  Groups groups(kind, ranks, options);
  groups.RunWell([&](Group& group) {
    Floats& data = results[static_cast<std::size_t>(group.rank())];
    data = Mixed(group.rank(), count);
    return group.AllReduce(data, In(kPatience));
  });
  return results;
}

// Computes the sum in the order that ring.h promises.
Floats SumInOrder(int ranks, std::size_t count) {
  std::vector<Floats> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(Mixed(rank, count));
  Floats sum(count);
  for (int part = 0; part < ranks; ++part) {
    const Part range = PartOf(count, ranks, part);
    for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
      float value = inputs[static_cast<std::size_t>((part + 1) % ranks)][i];
      for (int k = 2; k <= ranks; ++k) value += inputs[static_cast<std::size_t>((part + k) % ranks)][i];
      sum[i] = value;
    }
  }
  return sum;
}

TEST_CASE("the order of additions follows from the place alone: all ranks, chunk sizes and kinds give the same bits",
          "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const int ranks = GENERATE(2, 3, 5);
  const std::size_t count = 70001;
  const Floats expected = SumInOrder(ranks, count);
  for (const std::size_t chunk_bytes : {256u, 4096u, 65536u, 1u << 20}) {
    INFO(kind << ", " << ranks << " ranks, chunks of " << chunk_bytes);
    for (const Floats& result : ReducedMixed(kind, ranks, count, {.chunk_bytes = chunk_bytes})) {
      CHECK(SameBits(result, expected));
    }
  }
}

TEST_CASE("a wire of 16 bits rounds each hop once, and all ranks hold the same bits whatever the chunks",
          "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const Encoding wire = GENERATE(Encoding::kBf16, Encoding::kFp16);
  const int ranks = 3;
  const std::size_t count = 30001;
  Floats first;
  for (const std::size_t chunk_bytes : {512u, 65536u}) {
    for (const Floats& result : ReducedMixed(kind, ranks, count, {.wire = wire, .chunk_bytes = chunk_bytes})) {
      if (first.empty()) first = result;
      CHECK(SameBits(result, first));
    }
  }
  Floats rounded = first;
  RoundTo(wire, rounded);
  CHECK(SameBits(first, rounded));  // the owner of a part also holds the rounded sum that travelled
  std::size_t wrong = 0;
  const float unit = wire == Encoding::kBf16 ? 0x1p-8F : 0x1p-11F;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0.0, magnitude = 0.0;
    for (int rank = 0; rank < ranks; ++rank) {
      const double value = Mixed(rank, i + 1).back();
      sum += value;
      magnitude += std::abs(value);
    }
    wrong += std::abs(first[i] - sum) > ranks * unit * magnitude + 1e-6;
    i += 97;  // Mixed makes all numbers before the requested one
  }
  CHECK(wrong == 0);
}

TEST_CASE("each rank sends 2 (P-1)/P of the data, and half of it with 16 bits", "[collective]") {
  const std::string kind = GENERATE(from_range(kKinds));
  const int ranks = GENERATE(2, 3, 5);
  const Encoding wire = GENERATE(Encoding::kFp32, Encoding::kBf16);
  const std::size_t count = 100003;
  Groups groups(kind, ranks, {.wire = wire, .chunk_bytes = 10000});
  groups.RunWell([&](Group& group) {
    Floats data = Whole(group.rank(), count);
    return group.AllReduce(data, In(kPatience));
  });
  const double expected = 2.0 * (ranks - 1) / ranks * static_cast<double>(count * BytesPerNumber(wire));
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(static_cast<double>(groups[rank].bytes_sent()) == Approx(expected).epsilon(0.02));
  }
}

TEST_CASE("what cannot be is refused by name, and the group goes on", "[collective]") {
  Groups groups(GENERATE(from_range(kKinds)), 2);
  groups.RunWell([](Group& group) {
    Floats data(3, 1.0F);
    const auto refused = [&](const Status& status, const std::string& says) {
      return Check(status.code() == Code::kInvalid && status.message().find(says) != std::string::npos, says, group);
    };
    CAPSTAN_RETURN_IF_ERROR(refused(group.Broadcast(data, 2, In(kPatience)), "rank 2 in a group of 2"));
    CAPSTAN_RETURN_IF_ERROR(refused(group.Reduce(data, -1, In(kPatience)), "rank -1"));
    Floats small(5);
    CAPSTAN_RETURN_IF_ERROR(refused(group.Gather(data, group.rank(), small, In(kPatience)), "give room for 6"));
    CAPSTAN_RETURN_IF_ERROR(refused(group.Gather(data, 2, small, In(kPatience)), "rank 2 in a group of 2"));
    CAPSTAN_RETURN_IF_ERROR(refused(group.Gather(data, -1, small, In(kPatience)), "rank -1"));
    return group.AllReduce(data, In(kPatience));
  });
}

}  // namespace
}  // namespace capstan::collective
