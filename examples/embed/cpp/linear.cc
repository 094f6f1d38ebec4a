// Your own trainer: linear regression with a hand-written gradient. Any number of copies may run, and come and
// go.
//   linear [ADDRESS NAME]      default: the values that `capstan launch` passes to a program
#include <capstan/client.h>

#include <array>
#include <cstdio>
#include <cstdlib>

constexpr std::size_t kFeatures = 8, kSamples = 16;  // numbers in a sample, samples of a slot

// The data is a function of (step, slot, sample), so any process may compute a slot, any number of times.
std::array<float, kFeatures + 1> Sample(std::uint64_t step, std::uint32_t slot, std::uint64_t sample) {
  std::array<float, kFeatures + 1> row{};
  std::uint64_t state = (step * 4096 + slot) * kSamples + sample;
  for (std::size_t i = 0; i < kFeatures; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    row[i] = static_cast<float>(state >> 40) / 8388608.0F - 1.0F;
    row[kFeatures] += row[i] * static_cast<float>(i);  // the target, whose weights are 0, 1, 2, ...
  }
  return row;
}

// Computes the mean gradient of the squared error, times the loss scale. Returns the sum of the squared errors.
double Gradient(const capstan::Work& work, std::uint32_t slot, const float* weights, float* gradient) {
  double loss = 0;
  for (std::size_t i = 0; i <= kFeatures; ++i) gradient[i] = 0;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const auto row = Sample(work.step, slot, sample);
    float error = weights[kFeatures] - row[kFeatures];  // the bias lies behind the weights, as declared
    for (std::size_t i = 0; i < kFeatures; ++i) error += weights[i] * row[i];
    const float slope = 2 * error * work.loss_scale / kSamples;
    for (std::size_t i = 0; i < kFeatures; ++i) gradient[i] += slope * row[i];
    gradient[kFeatures] += slope;
    loss += static_cast<double>(error) * error;
  }
  return loss;
}

capstan::Status Train(capstan::Client& client) {
  CAPSTAN_RETURN_IF_ERROR(client.Declare({.tensors = {{"weight", {kFeatures}}, {"bias", {1}}}}));
  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto work, client.NextWork(client.kNoDeadline));
    if (!work) return {};  // the job is done
    capstan::Status status = client.WaitWeights(0, 1, client.kNoDeadline);
    for (std::size_t i = 0; i < work->slots.size() && status.ok(); ++i) {
      CAPSTAN_ASSIGN_OR_RETURN(float* const gradient, client.BeginSlot(work->slots[i], kSamples));
      const double loss = Gradient(*work, work->slots[i], client.weights(), gradient);
      status = client.EndSlot(work->slots[i], {.loss_sum = loss, .predictions = kSamples});
    }
    if (status.code() != capstan::Code::kStale) CAPSTAN_RETURN_IF_ERROR(status);  // stale: the round is over, go on
  }
}

int main(int argc, char** argv) {
  const char* const coordinator = argc == 3 ? argv[1] : std::getenv("CAPSTAN_COORDINATOR");
  const char* const worker = argc == 3 ? argv[2] : std::getenv("CAPSTAN_WORKER");
  if ((argc != 1 && argc != 3) || coordinator == nullptr || worker == nullptr) {
    return std::fprintf(stderr, "usage: linear ADDRESS NAME, or capstan launch job.toml -- linear\n"), 2;
  }
  const char* const key_file = std::getenv("CAPSTAN_KEY_FILE");  // where the job has keys
  auto client = capstan::Client::Connect(
      {.coordinator = coordinator, .worker = worker, .key_file = key_file == nullptr ? "" : key_file});
  const capstan::Status status = client.ok() ? Train(**client) : client.status();
  if (!status.ok()) std::fprintf(stderr, "linear: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
