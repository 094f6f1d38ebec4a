#include "kernels/random_fill.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "kernels/base/elementary.h"
#include "kernels/philox_batch.h"

namespace capstan::kernels {
namespace {

// Calls make(words, values) for each group of kPhiloxGroup elements that overlaps [first, first + out.size()), and
// copies the values inside that range to `out`.
template <class Make>
void FillGroups(std::uint64_t key, std::uint64_t first, std::span<float> out, Make make) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t element = first + done;
    const std::uint64_t group_first = element - element % kPhiloxGroup;
    std::uint32_t words[kPhiloxGroup];
    float values[kPhiloxGroup];
    PhiloxFill(key, group_first, kPhiloxGroup, words);
    make(words, values);
    const std::size_t skip = static_cast<std::size_t>(element - group_first);
    const std::size_t count = std::min<std::size_t>(kPhiloxGroup - skip, out.size() - done);
    std::copy_n(values + skip, count, out.data() + done);
    done += count;
  }
}

}  // namespace

// By Box and Muller: each pair of words gives two independent normal numbers.
void FillNormal(std::uint64_t key, std::uint64_t first_element, float stddev, std::span<float> out) {
  FillGroups(key, first_element, out, [stddev](const std::uint32_t* words, float* values) {
    for (int i = 0; i < kPhiloxGroup; i += 2) {
      const double u = (static_cast<double>(words[i]) + 0.5) * 0x1p-32;  // in (0, 1)
      const double radius = static_cast<double>(stddev) * std::sqrt(-2.0 * Log(u));
      const auto angle = SinCos2Pi(static_cast<double>(words[i + 1]) * 0x1p-32);
      values[i] = static_cast<float>(radius * angle.cosine);
      values[i + 1] = static_cast<float>(radius * angle.sine);
    }
  });
}

void FillUniform(std::uint64_t key, std::uint64_t first_element, float scale, std::span<float> out) {
  FillGroups(key, first_element, out, [scale](const std::uint32_t* words, float* values) {
    for (int i = 0; i < kPhiloxGroup; ++i) values[i] = scale * (2.0F * UnitFloat(words[i]) - 1.0F);
  });
}

}  // namespace capstan::kernels
