// Writes the inputs of a job's training into a folder, so that another trainer can use them:
//   initial.safetensors   version 0 of the weights
//   batches.jsonl         {"step", "slot", "samples"} of every slot of every step, in that order
//   batches.bin           for each of those lines: inputs (fp32) or tokens (int32), then targets (int32), row-major
#include <fstream>

#include "common/config/job/job_section.h"
#include "server/shard/initial_weights.h"
#include "tests/parity/local_job.h"
#include "worker/train/slot_computer.h"

namespace capstan::parity {

namespace {

Status WriteInitialWeights(const LocalJob& job, const std::string& path) {
  std::vector<float> values(job.catalog->element_count());
  for (TensorIndex i = 0; i < job.catalog->tensors().size(); ++i) {
    const TensorSpec& tensor = job.catalog->tensors()[i];
    server::FillInitialWeights(job.config.job.seed, tensor, 0,
                               std::span(values).subspan(job.catalog->flat_offset(i), tensor.ElementCount()));
  }
  return WriteTensors(path, *job.catalog, values);
}

template <class Value>
void Write(std::ofstream& file, const std::vector<Value>& values) {
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(Value)));
}

Status WriteBatches(LocalJob& job, const std::string& folder) {
  train::SlotComputer computer(job.config, *job.data, *job.model);
  std::ofstream index(folder + "/batches.jsonl"), batches(folder + "/batches.bin", std::ios::binary);
  train::BatchBuffer buffer;
  for (std::uint64_t step = 0; step < job.config.job.steps; ++step) {
    for (SlotIndex slot = 0; slot < job.config.job.slots; ++slot) {
      const std::span<const std::uint64_t> samples = computer.Samples(Step{step}, slot);
      CAPSTAN_RETURN_IF_ERROR(
          job.data->Fill(samples, train::Split::kTraining, {job.config.job.seed, step, slot}, &buffer));
      index << "{\"step\": " << step << ", \"slot\": " << slot << ", \"samples\": " << samples.size() << "}\n";
      Write(batches, buffer.inputs);
      Write(batches, buffer.tokens);
      Write(batches, buffer.targets);
    }
  }
  index.close();
  batches.close();
  return index && batches ? Status() : Unreachable(folder + ": cannot write the batches");
}

Status DumpInputs(LocalJob& job, const std::string& folder) {
  CAPSTAN_RETURN_IF_ERROR(WriteInitialWeights(job, folder + "/initial.safetensors"));
  return WriteBatches(job, folder);
}

}  // namespace

}  // namespace capstan::parity

int main(int argc, char** argv) { return capstan::parity::RunProgram(argc, argv, capstan::parity::DumpInputs); }
