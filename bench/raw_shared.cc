#include "bench/raw_shared.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "bench/child_process.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSourceBytes = std::size_t{64} << 20;  // larger than the caches
constexpr std::size_t kRingBytes = std::size_t{8} << 20;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A ring of frames in memory that both processes map.
struct Ring {
  struct Numbers {
    alignas(64) std::atomic<std::uint64_t> written{0};
    alignas(64) std::atomic<std::uint64_t> read{0};
  };

  explicit Ring(std::size_t frame_size)
      : frame_bytes(frame_size), frames(std::max<std::size_t>(2, kRingBytes / frame_size)) {
    const std::size_t size = sizeof(Numbers) + frames * frame_bytes;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CAPSTAN_CHECK(memory != MAP_FAILED);
    numbers = new (memory) Numbers;
    data = static_cast<std::byte*>(memory) + sizeof(Numbers);
  }
  ~Ring() { munmap(numbers, sizeof(Numbers) + frames * frame_bytes); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::byte* Frame(std::uint64_t number) const { return data + number % frames * frame_bytes; }

  const std::size_t frame_bytes, frames;
  Numbers* numbers = nullptr;
  std::byte* data = nullptr;
};

// Copies frames into the ring until the parent ends this process.
Status Write(const Ring& ring) {
  const std::size_t frames = std::max<std::size_t>(1, kSourceBytes / ring.frame_bytes);
  const std::vector<std::byte> source(frames * ring.frame_bytes, std::byte{1});
  for (std::uint64_t number = 0;; ++number) {
    while (number - ring.numbers->read.load(std::memory_order_acquire) == ring.frames) std::this_thread::yield();
    std::memcpy(ring.Frame(number), source.data() + number % frames * ring.frame_bytes, ring.frame_bytes);
    ring.numbers->written.store(number + 1, std::memory_order_release);
  }
}

// Adds frames of the ring to the numbers of `sums` for so long. Returns their bytes.
std::uint64_t ReadFor(const Ring& ring, double seconds, std::vector<float>* sums) {
  std::uint64_t bytes = 0;
  const std::size_t numbers = ring.frame_bytes / sizeof(float), places = sums->size() / numbers;
  const Clock::time_point start = Clock::now();
  std::uint64_t number = ring.numbers->read.load(std::memory_order_relaxed);
  while (SecondsSince(start) < seconds) {
    for (int i = 0; i < 8; ++i, ++number, bytes += ring.frame_bytes) {
      while (ring.numbers->written.load(std::memory_order_acquire) == number) std::this_thread::yield();
      float* const sum = sums->data() + number % places * numbers;
      const auto* const frame = reinterpret_cast<const float*>(ring.Frame(number));
      for (std::size_t n = 0; n < numbers; ++n) sum[n] += frame[n];
      ring.numbers->read.store(number + 1, std::memory_order_release);
    }
  }
  return bytes;
}

// Reads until the stream is steady and sends "flows". After the parent's next line it reads for `seconds` and answers
// with the GB and the seconds.
Status Read(Channel& parent, const Ring& ring, double seconds) {
  std::vector<float> sums(std::max(kSourceBytes, ring.frame_bytes) / sizeof(float));
  (void)ReadFor(ring, seconds / 4, &sums);
  parent.Send("flows");
  CAPSTAN_RETURN_IF_ERROR(parent.Receive().status());
  const Clock::time_point start = Clock::now();
  const std::uint64_t bytes = ReadFor(ring, seconds, &sums);
  parent.Send(std::to_string(static_cast<double>(bytes) * 1e-9) + " " + std::to_string(SecondsSince(start)));
  (void)parent.Receive();
  return {};
}

struct Pair {
  Pair(std::size_t frame_bytes, double seconds)
      : ring(std::make_unique<Ring>(frame_bytes)),
        reader(ChildProcess::Fork([this, seconds](Channel& parent) { return Read(parent, *ring, seconds); })),
        writer(ChildProcess::Fork([this](Channel&) { return Write(*ring); })) {}
  double CpuSeconds() const { return reader.CpuSeconds() + writer.CpuSeconds(); }

  std::unique_ptr<Ring> ring;
  ChildProcess reader, writer;
};

}  // namespace

Result<RawThroughput> MeasureSharedThroughput(int pairs, std::size_t frame_bytes, double seconds) {
  std::vector<std::unique_ptr<Pair>> running;
  for (int i = 0; i < pairs; ++i) running.push_back(std::make_unique<Pair>(frame_bytes, seconds));
  const auto cpu = [&] {
    double sum = 0.0;
    for (const auto& pair : running) sum += pair->CpuSeconds();
    return sum;
  };
  for (const auto& pair : running) CAPSTAN_RETURN_IF_ERROR(pair->reader.channel().Receive().status());
  const double before = cpu();
  for (const auto& pair : running) pair->reader.channel().Send("go");
  RawThroughput total;
  double gigabytes = 0.0;
  for (const auto& pair : running) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string answer, pair->reader.channel().Receive());
    const std::size_t space = answer.find(' ');
    const double moved = std::stod(answer.substr(0, space)), took = std::stod(answer.substr(space + 1));
    gigabytes += moved;
    total.gigabytes_per_second += moved / took;
  }
  total.cpu_seconds_per_gigabyte = (cpu() - before) / gigabytes;
  return total;
}

}  // namespace capstan::bench
