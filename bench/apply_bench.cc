#include "bench/apply_bench.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/base/buffer.h"
#include "common/data/catalog.h"
#include "kernels/stream_store.h"
#include "server/shard/block_store.h"

namespace capstan::bench {

namespace {

constexpr std::size_t kPayloadOffset = 20;  // frames arrive unaligned
constexpr std::size_t kBlockBytes = kBlockElements * sizeof(float);
constexpr std::size_t kGroupBlocks = 32;  // blocks between two turns of the pass
constexpr std::size_t kCopiedBlocks = 2;  // copied for each block that the pass updates
constexpr std::size_t kPrefetchElements = 512;

// One optimizer, with the number of gradients that are added.
struct Case {
  const char* name;
  OptimizerRule rule;
  std::size_t inputs;

  std::size_t arrays() const { return inputs + 2 * (1 + static_cast<std::size_t>(StateCount(rule))) + 1; }
};

std::array<Case, 5> Cases() {
  const OptimizerRule sgd{.kind = OptimizerKind::kSgd};
  const OptimizerRule momentum{.kind = OptimizerKind::kMomentum, .momentum = 0.9};
  const OptimizerRule adam{.kind = OptimizerKind::kAdam};
  const OptimizerRule adamw{.kind = OptimizerKind::kAdamW, .weight_decay = 0.01};
  return {{{"sgd", sgd, 2}, {"momentum", momentum, 2}, {"adam", adam, 2}, {"adamw", adamw, 1}, {"adamw", adamw, 2}}};
}

// Seconds that the calling thread has computed. Other programs still take memory's bandwidth.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void CopyPastCaches(const float* from, float* to) {
  for (std::size_t i = 0; i < kBlockElements; i += 16) {
    __builtin_prefetch(from + i + kPrefetchElements);
    kernels::StreamLine(to + i, from + i);
  }
  kernels::FinishStreaming();
}

// The blocks that one thread updates and the buffers that it copies, both several times as large as the caches.
class Part {
 public:
  Part(const Catalog& catalog, const Case& what)
      : what_(what), rule_{what.rule, 1e-4}, store_(catalog, AllBlocks(catalog), what.rule, 1) {
    const std::size_t count = store_.size();
    for (std::size_t i = 0; i < count * what.inputs; ++i) payloads_.push_back(Filled(&payload_pool_, 0.001F));
    for (std::size_t i = 0; i < 2 * std::max(count, kCopiedBlocks); ++i) copies_.push_back(Filled(&copy_pool_, 0.01F));
  }

  struct Seconds {
    double pass = 0.0, memcpy = 0.0, streamed = 0.0;
  };

  // Takes turns: a group of blocks is copied in two ways, then updated. `meet` waits for the other threads.
  template <class Meet>
  Seconds Round(const Meet& meet) {
    Seconds seconds;
    for (std::size_t begin = 0; begin < store_.size(); begin += kGroupBlocks) {
      const std::size_t end = std::min(begin + kGroupBlocks, store_.size());
      meet();
      seconds.memcpy += Timed(begin, end, [this](std::size_t) {
        Copy([](const float* from, float* to) { std::memcpy(to, from, kBlockBytes); });
      });
      meet();
      seconds.streamed += Timed(begin, end, [this](std::size_t) { Copy(CopyPastCaches); });
      meet();
      seconds.pass += Timed(begin, end, [this](std::size_t index) { Update(index); });
    }
    store_.PublishPrepared();
    ++step_;
    return seconds;
  }

  double pass_bytes() const { return static_cast<double>(store_.size() * kBlockBytes * what_.arrays()); }
  double copied_bytes() const { return static_cast<double>(store_.size() * kBlockBytes * kCopiedBlocks * 2); }

 private:
  static std::vector<BlockIndex> AllBlocks(const Catalog& catalog) {
    std::vector<BlockIndex> blocks(catalog.blocks().size());
    std::iota(blocks.begin(), blocks.end(), BlockIndex{0});
    return blocks;
  }
  static BufferRef Filled(BufferPool* pool, float value) {
    BufferRef buffer = pool->Take();
    std::fill_n(buffer.As<float>(), buffer->size() / sizeof(float), value);
    return buffer;
  }
  template <class Work>
  static double Timed(std::size_t begin, std::size_t end, const Work& work) {
    const double start = ThreadSeconds();
    for (std::size_t index = begin; index < end; ++index) work(index);
    return ThreadSeconds() - start;
  }

  template <class CopyBlock>
  void Copy(const CopyBlock& copy) {
    for (std::size_t i = 0; i < kCopiedBlocks; ++i, next_copy_ = (next_copy_ + 2) % copies_.size())
      copy(copies_[next_copy_].As<float>(), copies_[next_copy_ + 1].As<float>());
  }

  // Does what a shard does with a block in a step, from the staged gradients to the weights that workers pull.
  void Update(std::size_t index) {
    const UpdateScalars scalars{.step = step_, .mean_scale = 1.0F / 32};
    std::vector<StagedInput> cover;
    for (std::size_t i = 0; i < what_.inputs; ++i) {
      const auto slot = static_cast<SlotIndex>(i);
      cover.push_back({{slot, slot + 1}, 16, payloads_[index * what_.inputs + i]->data() + kPayloadOffset});
    }
    double squares = 0.0;
    store_.Prepare(index, cover, ReductionTree(static_cast<SlotIndex>(what_.inputs)), {&rule_, 1}, scalars,
                   {&squares, 1});
    (void)store_.PreparedToSend(index, Encoding::kFp32);
  }

  const Case what_;
  const GroupRule rule_;
  server::BlockStore store_;
  BufferPool payload_pool_{kBlockBytes + kPayloadOffset}, copy_pool_{kBlockBytes};
  std::vector<BufferRef> payloads_, copies_;
  std::size_t next_copy_ = 0;
  std::uint64_t step_ = 1;
};

Result<Catalog> ModelOf(std::size_t blocks) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < blocks; ++i)
    tensors.push_back({"t" + std::to_string(i), {kBlockElements}, {InitKind::kNormal, 0.02F}});
  return Catalog::Create(std::move(tensors));
}

std::string NameOf(const Case& what, std::size_t threads, std::size_t model_mib) {
  return std::string("apply/") + what.name + "/" + std::to_string(what.inputs) + "-inputs/" + std::to_string(threads) +
         (threads == 1 ? "-thread/" : "-threads/") + std::to_string(model_mib) + "-mib";
}

// A case on some threads, each of which has its own part of the model, as shards have.
class Running {
 public:
  Running(std::string name, const Case& what, std::size_t threads, std::size_t model_mib) : name_(std::move(name)) {
    const Result<Catalog> catalog = ModelOf(std::max<std::size_t>(1, model_mib / threads));
    CAPSTAN_CHECK(catalog.ok());
    for (std::size_t thread = 0; thread < threads; ++thread) parts_.push_back(std::make_unique<Part>(*catalog, what));
    (void)Round();  // takes all buffers
  }

  const std::string& name() const { return name_; }

  // Returns the GB/s of the pass and those of the faster copy, of all threads together.
  Readings Round() {
    std::vector<Part::Seconds> seconds(parts_.size());
    std::barrier all(static_cast<std::ptrdiff_t>(parts_.size()));
    const auto run = [&](std::size_t i) { seconds[i] = parts_[i]->Round([&all] { all.arrive_and_wait(); }); };
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < parts_.size(); ++i) others.emplace_back(run, i);
    run(0);
    for (std::thread& other : others) other.join();
    double pass = 0.0, copy = 0.0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      pass += parts_[i]->pass_bytes() * 1e-9 / seconds[i].pass;
      copy += parts_[i]->copied_bytes() * 1e-9 / std::min(seconds[i].memcpy, seconds[i].streamed);
    }
    return {pass, copy};
  }

 private:
  const std::string name_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace

Plan PlanApply(const ApplyOptions& options) {
  Plan plan;
  plan.rounds = options.rounds;
  const auto running = std::make_shared<std::unique_ptr<Running>>();  // one at a time, because each has much memory
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (const Case& what : Cases()) {
    for (const std::size_t threads : std::set<std::size_t>{1, cores}) {
      const std::string name = NameOf(what, threads, options.model_mib);
      RowGroup group;
      group.measurements = {[running, what, threads, name, mib = options.model_mib]() -> Result<Readings> {
        if (!*running || (*running)->name() != name) {
          running->reset();
          *running = std::make_unique<Running>(name, what, threads, mib);
        }
        return (*running)->Round();
      }};
      group.rows = {{.name = name,
                     .unit = "GB/s",
                     .limit_name = "a copy; bytes read and written",
                     .needs = {0},
                     .sample = [](const std::vector<Readings>& readings) {
                       return Sample{readings[0][0], readings[0][1]};
                     }}};
      plan.groups.push_back(std::move(group));
    }
  }
  return plan;
}

}  // namespace capstan::bench
