/* Your own trainer in C: logistic regression with a hand-written gradient. Any number of copies may run.
 *   logistic [ADDRESS NAME]      default: the values that `capstan launch` passes to a program
 */
#include <capstan/capstan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { kFeatures = 8, kSamples = 16 }; /* numbers in a sample, samples of a slot */

/* The data is a function of (step, slot, sample), so any process may compute a slot, any number of times. */
static float Sample(uint64_t step, uint32_t slot, uint64_t sample, float* row) {
  uint64_t state = (step * 4096 + slot) * kSamples + sample;
  float sum = 0;
  for (int i = 0; i < kFeatures; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    row[i] = (float)(state >> 40) / 8388608.0F - 1.0F;
    sum += row[i] * (float)(i - 3);
  }
  return sum > 0 ? 1 : 0;
}

/* Computes the mean gradient of the log loss, times the loss scale. Returns the sum of the losses. */
static double Gradient(const capstan_work* work, uint32_t slot, const float* weights, float* gradient) {
  double loss = 0;
  for (int i = 0; i <= kFeatures; ++i) gradient[i] = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    float row[kFeatures];
    const float target = Sample(work->step, slot, sample, row);
    float logit = weights[kFeatures]; /* the bias lies behind the weights, as declared */
    for (int i = 0; i < kFeatures; ++i) logit += weights[i] * row[i];
    const float probability = 1 / (1 + expf(-logit));
    const float slope = (probability - target) * work->loss_scale / kSamples;
    for (int i = 0; i < kFeatures; ++i) gradient[i] += slope * row[i];
    gradient[kFeatures] += slope;
    loss -= log((target > 0 ? probability : 1 - probability) + 1e-30);
  }
  return loss;
}

static capstan_code Declare(capstan_client* client) {
  const int64_t features = kFeatures, one = 1;
  const capstan_tensor tensors[] = {
      {.size = sizeof(capstan_tensor), .name = "weight", .shape = &features, .dimensions = 1},
      {.size = sizeof(capstan_tensor), .name = "bias", .shape = &one, .dimensions = 1, .no_weight_decay = 1}};
  const capstan_description description = {.size = sizeof description, .tensors = tensors, .tensor_count = 2};
  return capstan_declare(client, &description);
}

static capstan_code RunRound(capstan_client* client, const capstan_work* work) {
  const float* weights = NULL;
  capstan_code code = capstan_weights(client, &weights);
  if (code == CAPSTAN_OK) code = capstan_wait_weights(client, 0, 1, -1);
  for (size_t i = 0; i < work->slot_length && code == CAPSTAN_OK; ++i) {
    float* gradient = NULL;
    code = capstan_begin_slot(client, work->slots[i], kSamples, &gradient);
    if (code != CAPSTAN_OK) break;
    capstan_result result = {.size = sizeof result, .predictions = kSamples};
    result.loss_sum = Gradient(work, work->slots[i], weights, gradient);
    code = capstan_end_slot(client, work->slots[i], &result);
  }
  return code == CAPSTAN_STALE ? CAPSTAN_OK : code; /* stale: the round is over, go on */
}

static capstan_code Train(capstan_client* client) {
  capstan_work work = {.size = sizeof work};
  capstan_code code = Declare(client);
  while (code == CAPSTAN_OK && (code = capstan_next_work(client, -1, &work)) == CAPSTAN_OK && !work.done) {
    code = RunRound(client, &work);
  }
  return code;
}

int main(int argc, char** argv) {
  const char* coordinator = argc == 3 ? argv[1] : getenv("CAPSTAN_COORDINATOR");
  const char* worker = argc == 3 ? argv[2] : getenv("CAPSTAN_WORKER");
  if ((argc != 1 && argc != 3) || !coordinator || !worker) {
    return fprintf(stderr, "usage: logistic ADDRESS NAME, or capstan launch job.toml -- logistic\n"), 2;
  }
  char error[1024] = "";
  capstan_client* client = NULL;
  const capstan_options options = {
      .size = sizeof options, .coordinator = coordinator, .worker = worker, .key_file = getenv("CAPSTAN_KEY_FILE")};
  capstan_code code = capstan_connect(&options, &client, error, sizeof error);
  if (code == CAPSTAN_OK) code = Train(client);
  if (code != CAPSTAN_OK) {
    fprintf(stderr, "logistic: %s: %s\n", capstan_code_name(code), client ? capstan_last_error(client) : error);
  }
  capstan_free(client);
  return code == CAPSTAN_OK ? 0 : 1;
}
