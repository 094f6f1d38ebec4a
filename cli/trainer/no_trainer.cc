// The functions of no_trainer.h, built_in_model.h and device_facts.h for a build without the built-in trainer.
#include "cli/trainer/no_trainer.h"

#include "cli/trainer/built_in_model.h"
#include "cli/trainer/device_facts.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

std::string ModelOf(const JobConfig& config) { return "the [model] of job \"" + config.job.name + "\""; }

}  // namespace

Status NoTrainer(const std::string& who) {
  return Unsupported("this build has no built-in trainer (CAPSTAN_TRAINER=OFF), and " + who +
                     " needs it; start your own program as a worker of a job with model.kind = \"client\", or build "
                     "capstan with -DCAPSTAN_TRAINER=ON");
}

Result<JobNeeds> NeedsOfJob(const JobConfig& config) {
  return config.model.built_in() ? NoTrainer(ModelOf(config)) : Unsupported("the model is its workers' own");
}

DeviceFacts ReadDevice(const std::string& /*plugins*/) {
  DeviceFacts facts;
  facts.plugin_problem = NoTrainer("computing on a GPU").message();
  return facts;
}

Status CheckMachine(const JobConfig& config) { return config.model.built_in() ? NoTrainer(ModelOf(config)) : Status(); }

Result<Catalog> CatalogOfJob(const JobConfig& config) {
  if (config.model.built_in()) return NoTrainer(ModelOf(config));
  return Invalid("model.kind = \"client\": the model is its workers' own, and known once one of them has declared it");
}

Result<std::string> SampleOfJob(const JobConfig&, const std::string&) { return NoTrainer("a sample of text"); }

}  // namespace capstan::cli
