#include "bench/apply_bench.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>

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

std::array<Case, 6> Cases() {
  const OptimizerRule sgd{.kind = OptimizerKind::kSgd};
  const OptimizerRule momentum{.kind = OptimizerKind::kMomentum, .momentum = 0.9};
  const OptimizerRule adam{.kind = OptimizerKind::kAdam};
  const OptimizerRule adamw{.kind = OptimizerKind::kAdamW, .weight_decay = 0.01};
  return {{{"sgd", sgd, 2},
           {"momentum", momentum, 2},
           {"adam", adam, 2},
           {"adamw", adamw, 1},
           {"adamw", adamw, 2},
           {"adamw", adamw, 4}}};
}

// Seconds that the calling thread has computed. So other programs on the machine cost a figure little.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void CopyPastCaches(const float* from, float* to) {
  for (std::size_t i = 0; i < kBlockElements; i += 16) {
    __builtin_prefetch(from + i + kPrefetchElements);
    kernels::StreamLine(to + i, from + i);
  }
  kernels::FinishStreaming();
}

// What one thread updates and copies. Everything is several times as large as what the caches hold.
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

  // What a shard does with a block in a step, from the staged gradients to the weights that workers pull.
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

// Measures a case on `threads` threads, each of which has its own part of the model, as shards have.
Figure Measure(const Case& what, std::size_t threads, const ApplyOptions& options) {
  const Result<Catalog> catalog = ModelOf(std::max<std::size_t>(1, options.model_mib / threads));
  CAPSTAN_CHECK(catalog.ok());
  std::vector<double> rates(threads), limits(threads);
  std::barrier all(static_cast<std::ptrdiff_t>(threads));
  const auto run = [&](std::size_t thread) {
    Part part(*catalog, what);
    const auto meet = [&] { all.arrive_and_wait(); };
    part.Round(meet);  // takes all buffers
    std::vector<double> pass, memcpy, streamed;
    for (int round = 0; round < options.rounds; ++round) {
      const Part::Seconds seconds = part.Round(meet);
      pass.push_back(seconds.pass);
      memcpy.push_back(seconds.memcpy);
      streamed.push_back(seconds.streamed);
    }
    rates[thread] = part.pass_bytes() / Median(pass);
    limits[thread] = part.copied_bytes() / std::min(Median(memcpy), Median(streamed));
  };
  std::vector<std::thread> others;
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  const double rate = std::accumulate(rates.begin(), rates.end(), 0.0) * 1e-9;
  const double limit = std::accumulate(limits.begin(), limits.end(), 0.0) * 1e-9;
  return {.name = NameOf(what, threads, options.model_mib),
          .value = rate,
          .unit = "GB/s",
          .limit = limit,
          .limit_name = "a copy; bytes read and written",
          .ratio = rate / limit};
}

}  // namespace

std::vector<Figure> MeasureApply(const ApplyOptions& options) {
  std::vector<Figure> figures;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (const Case& what : Cases()) {
    for (const std::size_t threads : std::set<std::size_t>{1, cores}) {
      if (NameOf(what, threads, options.model_mib).find(options.parts.only) == std::string::npos) continue;
      figures.push_back(Measure(what, threads, options));
      if (options.parts.measured) options.parts.measured(figures.back());
    }
  }
  return figures;
}

}  // namespace capstan::bench
