#include "kernels/random_fill.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementary.h"
#include "kernels/philox_batch.h"

namespace capstan::kernels {
namespace {

// Word w of counter c is element 4 c + w. Calls make(batch, values) for each batch that [first, first + out.size())
// touches and copies the part of the kPhiloxBatch values that is wanted.
template <class Make>
void FillBatches(std::uint64_t key, std::uint64_t first, std::span<float> out, Make make) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t element = first + done;
    const std::uint64_t batch_first = element - element % kPhiloxBatch;
    const PhiloxBatch batch(key, batch_first / 4);
    alignas(64) float values[kPhiloxBatch];
    make(batch, values);
    const std::size_t skip = static_cast<std::size_t>(element - batch_first);
    const std::size_t count = std::min<std::size_t>(kPhiloxBatch - skip, out.size() - done);
    std::copy_n(values + skip, count, out.data() + done);
    done += count;
  }
}

// Two independent normal numbers from two 32-bit words.
void BoxMuller(const std::uint32_t* radius_words, const std::uint32_t* angle_words, double* cosines, double* sines) {
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const double u = (static_cast<double>(radius_words[i]) + 0.5) * 0x1p-32;  // in (0, 1)
    const double radius = std::sqrt(-2.0 * Log(u));
    const auto angle = SinCos2Pi(static_cast<double>(angle_words[i]) * 0x1p-32);
    cosines[i] = radius * angle.cosine;
    sines[i] = radius * angle.sine;
  }
}

}  // namespace

void FillNormal(std::uint64_t key, std::uint64_t first_element, float stddev, std::span<float> out) {
  FillBatches(key, first_element, out, [stddev](const PhiloxBatch& batch, float* values) {
    double normals[4][kPhiloxLanes];
    BoxMuller(batch.words[0], batch.words[1], normals[0], normals[1]);
    BoxMuller(batch.words[2], batch.words[3], normals[2], normals[3]);
    for (int i = 0; i < kPhiloxLanes; ++i) {
      for (int word = 0; word < 4; ++word) {
        values[4 * i + word] = static_cast<float>(static_cast<double>(stddev) * normals[word][i]);
      }
    }
  });
}

void FillUniform(std::uint64_t key, std::uint64_t first_element, float scale, std::span<float> out) {
  FillBatches(key, first_element, out, [scale](const PhiloxBatch& batch, float* values) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
      for (int word = 0; word < 4; ++word) {
        values[4 * i + word] = scale * (2.0F * UnitFloat(batch.words[word][i]) - 1.0F);
      }
    }
  });
}

}  // namespace capstan::kernels
