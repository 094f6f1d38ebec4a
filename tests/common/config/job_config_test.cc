#include "common/config/job_config.h"

#include <filesystem>
#include <fstream>

#include "common/config/job/sections.h"
#include "tests/catch.h"
#include "tests/common/config/smallest_job.h"

using namespace capstan;
using capstan::testing::kSmallestJob;
using capstan::testing::ParseJob;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

Status Refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto config = ParseJobConfig(text, "job.toml", overrides);
  REQUIRE_FALSE(config.ok());
  return config.status();
}

std::string Message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Status status = Refusal(text, overrides);
  CHECK(status.code() == Code::kInvalid);
  return status.message();
}

}  // namespace

TEST_CASE("steps, batch, model and data make a job; all else has a default", "[config]") {
  const JobConfig config = ParseJob(kSmallestJob);
  CHECK(config.job.steps == 10);
  CHECK(config.job.mode == Mode::kSync);
  CHECK(config.job.slots == 4);
  CHECK(config.optimizer.kind == OptimizerKind::kAdamW);
  CHECK(config.optimizer.weight_decay == 0.01);
  CHECK(config.limits.stall == 600);
  CHECK(config.shard_count() == 1);
}

TEST_CASE("defaults are PyTorch's for each kind of optimizer", "[config]") {
  const std::string text = kSmallestJob;
  CHECK(ParseJob(text, {"optimizer.kind=adam"}).optimizer.weight_decay == 0);
  CHECK(ParseJob(text, {"optimizer.kind=adagrad"}).optimizer.lr == 0.01);
  CHECK(ParseJob(text, {"optimizer.kind=adagrad"}).optimizer.eps == 1e-10);
  CHECK(ParseJob(text, {"optimizer.kind=sgd"}).optimizer.lr == 0.001);
  CHECK(ParseJob(text, {"optimizer.kind=adagrad", "optimizer.lr=0.5"}).optimizer.lr == 0.5);
}

TEST_CASE("lars and lamb have defaults and keys of their own", "[config]") {
  const OptimizerSection lars = ParseJob(kSmallestJob, {"optimizer.kind=lars"}).optimizer;
  CHECK(lars.lr == 0.1);
  CHECK(lars.momentum == 0.9);
  CHECK(lars.weight_decay == 0);
  CHECK(lars.trust_coefficient == 0.001);
  const OptimizerSection lamb = ParseJob(kSmallestJob, {"optimizer.kind=lamb"}).optimizer;
  CHECK(lamb.lr == 0.001);
  CHECK(lamb.eps == 1e-6);
  CHECK(lamb.weight_decay == 0.01);
  CHECK(
      ParseJob(kSmallestJob, {"optimizer.kind=lars", "optimizer.trust_coefficient=0.02"}).optimizer.trust_coefficient ==
      0.02);
  const std::pair<const char*, const char*> foreign[] = {
      {"lars", "betas=[0.8, 0.9]"},   {"lars", "nesterov=true"},       {"lars", "eps=1e-5"},
      {"lamb", "momentum=0.8"},       {"lamb", "trust_coefficient=1"}, {"momentum", "trust_coefficient=1"},
      {"lars", "trust_coefficient=0"}};
  for (const auto& [kind, key] : foreign) {
    CAPTURE(kind, key);
    CHECK(Refusal(kSmallestJob, {std::string("optimizer.kind=") + kind, std::string("optimizer.") + key}).code() ==
          Code::kInvalid);
  }
}

TEST_CASE("an external optimizer leaves its numbers to the program", "[config]") {
  const std::string own = "[job]\nsteps=9\nglobal_batch=8\n[model]\nkind=\"client\"\n[optimizer]\nkind=\"external\"\n";
  CHECK_THAT(Message(own, {"optimizer.lr=0.1"}), Contains("a kind that the servers run"));
  CHECK_THAT(Message(own, {"job.mode=async"}), Contains("which only mode \"sync\" has"));
}

TEST_CASE("a trust ratio needs whole steps, and modes without them refuse it by name", "[config]") {
  for (const char* kind : {"lars", "lamb"}) {
    for (const char* mode : {"async", "bounded"}) {
      const std::string message =
          Message(kSmallestJob, {std::string("job.mode=") + mode, std::string("optimizer.kind=") + kind});
      CHECK_THAT(message, Contains(std::string("kind \"") + kind + "\" takes one ratio for each tensor") &&
                              Contains("set [job] mode = \"sync\""));
    }
  }
}

TEST_CASE("files of tokens say their vocabulary, and are uint16 unless the job says otherwise", "[config]") {
  const std::vector<std::string> tokens = {"model.kind=gpt", "data.kind=tokens", "data.path=a"};
  const auto with = [&](const std::string& override) {
    std::vector<std::string> overrides = tokens;
    overrides.push_back(override);
    return overrides;
  };
  CHECK(ParseJob(kSmallestJob, with("data.vocabulary=300")).data.type == TokenType::kUint16);
  CHECK_THAT(Message(kSmallestJob, tokens), Contains("\"vocabulary\" is missing in [data]"));
  CHECK_THAT(Message(kSmallestJob, with("data.type=int16")), Contains("one of \"uint16\", \"uint32\""));
  CHECK_THAT(Message(kSmallestJob, {"data.type=uint16"}), Contains("goes with kind = \"tokens\" only"));
  CHECK_THAT(Message(kSmallestJob, {"data.kind=tokens", "data.path=a", "data.vocabulary=300"}),
             Contains("\"mlp\" reads rows of numbers"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "model.context=1000000", "data.kind=tokens", "data.path=a",
                                    "data.vocabulary=1000000"}),
             Contains("[data] vocabulary would take"));
}

TEST_CASE("images of cifar10 are cropped and flipped unless the job says otherwise, and come with a test set",
          "[config]") {
  const DataSection data = ParseJob(kSmallestJob, {"data.kind=cifar10", "data.path=a", "data.crop=false"}).data;
  CHECK_FALSE(data.crop);
  CHECK(data.flip);
  CHECK(ParseJob(kSmallestJob, {"data.kind=cifar10", "data.path=a", "job.eval_every=5"}).job.eval_every == 5);
  CHECK_THAT(Message(kSmallestJob, {"data.kind=cifar10", "data.path=a", "data.validation=0.2"}),
             Contains("\"validation\" in [data] goes with a kind without a test set of its own only"));
  CHECK_THAT(Message(kSmallestJob, {"data.crop=true"}), Contains("goes with kind = \"cifar10\" only"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "data.kind=cifar10", "data.path=a"}), Contains("reads tokens"));
}

TEST_CASE("a preset is GPT-2 of its size, with a shorter context at will", "[config]") {
  struct Preset {
    const char* name;
    std::uint32_t layers, heads, width;
  };
  for (const Preset& preset : {Preset{"gpt2", 12, 12, 768}, Preset{"gpt2-medium", 24, 16, 1024},
                               Preset{"gpt2-large", 36, 20, 1280}, Preset{"gpt2-xl", 48, 25, 1600}}) {
    const std::string word = "model.preset=" + std::string(preset.name);
    const JobConfig config = ParseJob(kSmallestJob, {"model.kind=gpt", word});
    CHECK(config.model.layers == preset.layers);
    CHECK(config.model.heads == preset.heads);
    CHECK(config.model.width == preset.width);
    CHECK(config.model.context == 1024);
    CHECK(config.data.vocabulary == 50257);
    CHECK_THAT(PrintJobConfig(config), Contains("preset = \"" + std::string(preset.name) + "\""));
    CHECK(ParseJob(PrintJobConfig(config)) == config);
  }
  CHECK_THAT(PrintJobConfig(ParseJob(kSmallestJob, {"model.kind=gpt"})), !Contains("preset"));
  const std::vector<std::string> gpt2 = {"model.kind=gpt", "model.preset=gpt2", "data.kind=tokens", "data.path=a"};
  const auto with = [&](const std::string& override) {
    std::vector<std::string> overrides = gpt2;
    overrides.push_back(override);
    return overrides;
  };
  CHECK(ParseJob(kSmallestJob, gpt2).data.vocabulary == 50257);
  CHECK(ParseJob(kSmallestJob, with("model.context=256")).model.context == 256);
  CHECK(ParseJob(kSmallestJob, with("model.layers=12")).model.layers == 12);
  CHECK_THAT(Message(kSmallestJob, with("model.context=1025")),
             StartsWith("--set model.context=1025: context = 1025, and preset \"gpt2\" has positions for 1024"));
  CHECK_THAT(Message(kSmallestJob, with("model.layers=6")),
             StartsWith("--set model.layers=6: layers = 6, and preset \"gpt2\" has 12"));
  CHECK_THAT(Message(kSmallestJob, with("model.heads=16")), Contains("heads = 16, and preset \"gpt2\" has 12"));
  CHECK_THAT(Message(kSmallestJob, with("model.width=1024")), Contains("width = 1024, and preset \"gpt2\" has 768"));
  CHECK_THAT(Message(kSmallestJob, with("data.vocabulary=50304")),
             StartsWith("--set data.vocabulary=50304: vocabulary = 50304, and preset \"gpt2\" has 50257"));
  CHECK_THAT(Message(kSmallestJob, with("model.preset=gpt3")), Contains("did you mean \"gpt2\"?"));
  CHECK_THAT(Message(kSmallestJob, {"model.preset=gpt2"}), Contains("\"preset\" in [model] goes with kind = \"gpt\""));
}

TEST_CASE("the inputs of idx are divided by 255 unless the job says otherwise", "[config]") {
  const std::vector<std::string> idx = {"data.kind=idx", "data.path=a", "data.labels=b"};
  CHECK(ParseJob(kSmallestJob, idx).data.scale == 255);
  CHECK(ParseJob(kSmallestJob, {"data.kind=csv", "data.path=a"}).data.scale == 1);
}

TEST_CASE("slots that the file does not name follow from the batch, never from the workers", "[config]") {
  for (const char* workers : {"cluster.workers=1", "cluster.workers=2", "cluster.workers=6"}) {
    CHECK(ParseJob(kSmallestJob, {workers}).job.slots == 4);
    CHECK(ParseJob(kSmallestJob, {workers, "job.global_batch=3"}).job.slots == 3);
    CHECK(ParseJob(kSmallestJob, {workers, "job.global_batch=1"}).job.slots == 1);
    CHECK(ParseJob(kSmallestJob, {workers, "job.mode=async"}).job.slots == 4);
    CHECK(ParseJob(kSmallestJob, {workers, "job.slots=5"}).job.slots == 5);
  }
  CHECK(HashJobConfig(ParseJob(kSmallestJob, {"cluster.workers=1"})) ==
        HashJobConfig(ParseJob(kSmallestJob, {"cluster.workers=6"})));
}

TEST_CASE("an unknown key is an error with its place, the line and a suggestion", "[config]") {
  const std::string text = std::string(kSmallestJob) + "[optimizer]\n  weight_decya = 0.1\n";
  CHECK(Message(text) ==
        "job.toml:9:3: unknown key \"weight_decya\" in [optimizer]; did you mean \"weight_decay\"?\n"
        "    9 |   weight_decya = 0.1\n"
        "      |   ^^^^^^^^^^^^");
}

TEST_CASE("a misspelt key is named before the key that it leaves missing", "[config]") {
  CHECK_THAT(Message("[job]\nstpes = 10\nglobal_batch = 8\n[model]\nkind=\"mlp\"\n[data]\nkind=\"synthetic\"\n"),
             StartsWith("job.toml:2:1: unknown key \"stpes\" in [job]; did you mean \"steps\"?"));
}

TEST_CASE("a key of another section is sent there", "[config]") {
  CHECK_THAT(Message(std::string(kSmallestJob) + "[worker]\nglobal_batch = 4\n"), Contains("it belongs in [job]"));
  CHECK_THAT(Message("steps = 5\n" + std::string(kSmallestJob)), Contains("it belongs in [job]"));
  CHECK_THAT(Message(std::string(kSmallestJob) + "[limits]\nzzz = 4\n"), Contains("keys: join, lease, report, stall"));
}

TEST_CASE("an unknown section is an error with a suggestion", "[config]") {
  CHECK_THAT(Message(std::string(kSmallestJob) + "[optimiser]\nlr = 1\n"),
             StartsWith("job.toml:8:2: unknown section [optimiser]; did you mean \"optimizer\"?"));
  CHECK_THAT(Message(std::string(kSmallestJob) + "[zzz]\n"), Contains("sections: job, model, data"));
}

TEST_CASE("an unknown kind names the kinds there are", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gtp"}),
             StartsWith("--set model.kind=gtp: unknown word \"gtp\" for kind in [model]: one of \"gpt\", \"mlp\", "
                        "\"convnet\", \"resnet\", \"client\"; did you mean \"gpt\"?"));
  CHECK_THAT(Message("[job]\nsteps=1\nglobal_batch=1\n[model]\nkind = \"transformer\"\ndepth = 3\n"),
             StartsWith("job.toml:5:8: unknown word \"transformer\""));
}

TEST_CASE("a device is a kind, and a number where a machine has several", "[config]") {
  for (const std::string set : {"worker.device=cpu", "worker.device=cuda:12", "worker.device=emulated"}) {
    const JobConfig config = ParseJob(kSmallestJob, {set});
    CHECK(config.worker.device.index == (set.ends_with("12") ? std::optional(12U) : std::nullopt));
    CHECK(ParseJob(PrintJobConfig(config)) == config);
  }
  for (const std::string text : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cpu:0", "gpu", "cuda:99999999999"}) {
    CHECK_THAT(Message(kSmallestJob, {"worker.device=" + text}), Contains("unknown word \"" + text + "\" for device"));
  }
  const auto hash = [](const char* set) { return HashJobConfig(ParseJob(kSmallestJob, {set})); };
  CHECK(hash("worker.device=cuda") == hash("worker.device=cuda:1"));  // the bits of equal devices are equal
}

TEST_CASE("words that are not built yet are refused as such", "[config]") {
  const std::string refused =
      GENERATE(values<std::string>({"job.mode=local", "job.sync_every=4", "model.kind=dlrm", "data.kind=criteo",
                                    "cluster.mixed=true", "allreduce.wire=fp16"}));
  const Status status = Refusal(kSmallestJob, {refused});
  INFO(status.message());
  CHECK(status.code() == Code::kUnsupported);
  CHECK_THAT(status.message(), Contains("not built yet") && StartsWith("--set " + refused));
}

TEST_CASE("a median of gradients goes with mode sync, and with gradients that nobody has added", "[config]") {
  CHECK(AggregationOf(ParseJob(kSmallestJob)) == Aggregation::kMean);
  CHECK(AggregationOf(ParseJob(kSmallestJob, {"job.mode=async"})) == Aggregation::kNone);
  CHECK(AggregationOf(ParseJob(kSmallestJob, {"job.mode=allreduce"})) == Aggregation::kMean);
  const JobConfig config = ParseJob(kSmallestJob, {"job.aggregation=median"});
  CHECK(AggregationOf(config) == Aggregation::kMedian);
  CHECK(HashJobConfig(config) != HashJobConfig(ParseJob(kSmallestJob)));
  CHECK_THAT(PrintJobConfig(config), Contains("aggregation = \"median\""));
  for (const char* mode : {"job.mode=async", "job.mode=bounded"}) {
    CHECK_THAT(Message(kSmallestJob, {mode, "job.aggregation=median"}),
               Contains("\"aggregation\" in [job] goes with mode = \"sync\" or \"allreduce\" only"));
  }
  CHECK_THAT(Message(kSmallestJob, {"job.mode=allreduce", "job.aggregation=median"}),
             Contains("the workers add gradients among themselves"));
  // A run directory has the printed file, and the run may go on in the other mode.
  const std::string printed = PrintJobConfig(ParseJob(kSmallestJob));
  CHECK(ParseJob(printed, {"job.mode=allreduce"}).mode() == Mode::kAllReduce);
  CHECK(ParseJob(PrintJobConfig(ParseJob(printed, {"job.mode=allreduce"})), {"job.mode=sync"}).mode() == Mode::kSync);
  CHECK_THAT(Message(kSmallestJob, {"job.aggregation=median", "allreduce.local_reduce=gloo"}),
             Contains("needs each slot's own unless it is"));
}

TEST_CASE("durable acknowledgements go with the modes without global steps only", "[config]") {
  CHECK(ParseJob(kSmallestJob, {"job.mode=async"}).job.acknowledge == Acknowledge::kReceived);
  for (const char* mode : {"job.mode=async", "job.mode=bounded"}) {
    const JobConfig config = ParseJob(kSmallestJob, {mode, "job.acknowledge=durable"});
    CHECK(config.job.acknowledge == Acknowledge::kDurable);
    CHECK_THAT(PrintJobConfig(config), Contains("acknowledge = \"durable\""));
    CHECK(ParseJob(PrintJobConfig(config)) == config);
    CHECK(HashJobConfig(config) != HashJobConfig(ParseJob(kSmallestJob, {mode})));
  }
  CHECK_THAT(Message(kSmallestJob, {"job.acknowledge=durable"}),
             Contains("\"acknowledge\" in [job] goes with mode = \"async\" or \"bounded\" only"));
  CHECK_THAT(Message(kSmallestJob, {"job.mode=async", "job.acknowledge=always"}),
             Contains("one of \"received\", \"durable\""));
}

TEST_CASE("a key of another kind says which kind it goes with", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"model.layers=3"}),
             Contains("\"layers\" in [model] goes with kind = \"gpt\" only"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.momentum=0.5"}),
             Contains("kind = \"momentum\", \"rmsprop\" or \"lars\" only"));
}

TEST_CASE("a model of the workers' own has no sizes, no data and no settings of our workers", "[config]") {
  const std::string own = "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"client\"\n";
  const JobConfig config = ParseJob(own, {"cluster.workers=3", "job.eval_every=5", "optimizer.no_decay=[\"*.bias\"]"});
  CHECK(config.model.kind == ModelKind::kClient);
  CHECK_FALSE(config.model.built_in());
  CHECK(config.job.slots == 4);
  CHECK(ParseJob(PrintJobConfig(config)) == config);
  CHECK_THAT(PrintJobConfig(config), !Contains("[data]") && !Contains("threads") && Contains("[optimizer]"));
  CHECK_THAT(Message(own + "[data]\nkind = \"synthetic\"\n"),
             StartsWith("job.toml:6:2: [data] goes with a [model] kind other than \"client\" only"));
  CHECK_THAT(Message(own, {"worker.accumulate=2"}), Contains("\"accumulate\" in [worker] goes with"));
  CHECK(ParseJob(own, {"worker.precision=fp16"}).worker.precision == Precision::kFp16);
  CHECK_THAT(Message(own, {"worker.precision=fp16", "job.mode=async"}),
             Contains("\"client\" is built for mode \"sync\""));
  CHECK_THAT(Message(own, {"data.pth=x"}), Contains("did you mean \"path\"?"));
  CHECK_THAT(Message(own, {"model.hidden=[8]"}),
             Contains("\"hidden\" in [model] goes with kind = \"mlp\" or \"convnet\" only"));
  CHECK_THAT(Message(own, {"model.dropout=0.1"}), Contains("goes with kind = \"gpt\", \"mlp\" or \"convnet\" only"));
  CHECK_THAT(Message(own, {"job.slots=9"}), Contains("less than the 9 slots"));
}

TEST_CASE("a bad value says which key, which value, what is allowed", "[config]") {
  CHECK_THAT(Message("[job]\nsteps = 0\nglobal_batch = 8\n"),
             StartsWith("job.toml:2:9: job.steps is 0; wanted a whole number from 1 to 1099511627776\n"
                        "    2 | steps = 0\n      |         ^"));
  CHECK_THAT(Message("[job]\nsteps = \"ten\"\n"), Contains("job.steps is \"ten\"; wanted a whole number"));
  CHECK_THAT(Message("[job]\nsteps = 1979-05-27\n"), Contains("job.steps is a table or a date"));
  CHECK_THAT(Message("[job.steps]\nx = 1\n"), Contains("job.steps is a table or a date"));
  CHECK_THAT(Message(kSmallestJob, {"job.seed=-1"}), Contains("job.seed is -1; wanted a whole number of at least 0"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.lr=-0.1"}),
             Contains("optimizer.lr is -0.1; wanted a number of at least 0"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.lr=nan"}), Contains("optimizer.lr is nan"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.lr=inf"}), Contains("optimizer.lr is inf"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.betas=[0.9, 1.0]"}), Contains("below 1"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.betas=0.9"}), Contains("two numbers in brackets"));
  CHECK_THAT(Message(kSmallestJob, {"model.dropout=1"}), Contains("at least 0 and below 1"));
  CHECK_THAT(Message(kSmallestJob, {"model.hidden=64"}), Contains("a list, each a whole number from 1"));
  CHECK_THAT(Message(kSmallestJob, {"cluster.coordinator=nowhere"}), Contains("\"host:port\""));
  CHECK_THAT(Message(kSmallestJob, {"cluster.coordinator=http://h:1"}), Contains("\"host:port\""));
  CHECK_THAT(Message(kSmallestJob, {"cluster.listen=h:70000"}), Contains("\"host:port\""));
  CHECK_THAT(Message(kSmallestJob, {"cluster.coordinator=http://h:1"}), Contains("\"host:port\""));
  CHECK_THAT(Message(kSmallestJob, {"limits.lease=0"}), Contains("a number above 0 and at most"));
  CHECK_THAT(Message(kSmallestJob, {"optimizer.kind=momentum", "optimizer.nesterov=5"}), Contains("true or false"));
  CHECK_THAT(Message(std::string(kSmallestJob) + "[metrics]\nlisten = 5\n"), Contains("a text in quotes"));
}

TEST_CASE("https needs a certificate and a key, and names of this process are names", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"metrics.certificate=c"}), Contains("write the file of the key, too"));
  CHECK_THAT(Message(kSmallestJob, {"metrics.key=k"}), Contains("write the file of the certificate, too"));
  CHECK(ParseJob(kSmallestJob, {"metrics.certificate=c", "metrics.key=k"}).metrics.key == "k");
  for (const char* name : {"", "a:80", "http://a", "a b", "[a", "a/b"}) {
    CHECK_THAT(Message(kSmallestJob, {"metrics.hosts=[\"" + std::string(name) + "\"]"}),
               Contains("no name or address"));
  }
  CHECK(ParseJob(kSmallestJob, {"metrics.hosts=[\"a.example\", \"10.0.0.1\", \"[::1]\"]"}).metrics.hosts.size() == 3);
}

TEST_CASE("a missing key or section is named", "[config]") {
  CHECK_THAT(Message("[job]\nsteps = 1\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n"),
             StartsWith("job.toml:1:2: \"global_batch\" is missing in [job]"));
  CHECK_THAT(Message("[job]\nsteps = 1\nglobal_batch = 1\n[data]\nkind = \"synthetic\"\n"),
             Contains("job.toml: \"kind\" is missing in [model]"));
  CHECK_THAT(Message(kSmallestJob, {"data.kind=text", "model.kind=gpt"}), Contains("\"path\" is missing in [data]"));
  CHECK_THAT(Message(""), Contains("is missing"));
}

TEST_CASE("values that do not fit together are refused where one of them stands", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "model.width=100", "model.heads=3"}),
             StartsWith("--set model.heads=3: heads = 3 does not divide width = 100"));
  CHECK_THAT(Message(kSmallestJob, {"data.kind=text", "data.path=x"}), Contains("\"mlp\" reads rows of numbers"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "data.kind=csv", "data.path=x"}), Contains("reads tokens"));
  CHECK_THAT(Message(kSmallestJob, {"job.slots=9"}),
             StartsWith("job.toml:3:16: global_batch = 8 is less than the 9 slots"));
  CHECK_THAT(Message(kSmallestJob, {"job.eval_every=5", "data.validation=0"}), Contains("needs held-out samples"));
  CHECK_THAT(Message(kSmallestJob, {"schedule.warmup_steps=11"}), Contains("more than the job's 10 steps"));
  CHECK_THAT(Message(kSmallestJob, {"schedule.kind=cosine", "schedule.min_lr=1"}), Contains("above [optimizer] lr"));
  CHECK_THAT(Message(kSmallestJob, {"cluster.min_workers=2"}), Contains("min_workers = 2 is more than workers = 1"));
  CHECK_THAT(Message(kSmallestJob, {"data.kind=csv", "data.path=\"\""}), Contains("path is empty"));
}

TEST_CASE("a model of images reads idx files, or rows that are said to be images", "[config]") {
  const std::vector<std::string> convnet = {"model.kind=convnet"};
  CHECK_THAT(Message(kSmallestJob, convnet),
             Contains("\"convnet\" reads images: say image = [height, width, channels]"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=convnet", "data.kind=csv", "data.path=a"}), Contains("reads images"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=convnet", "data.kind=text", "data.path=a"}),
             Contains("\"convnet\" reads rows of numbers"));
  CHECK(ParseJob(kSmallestJob, {"model.kind=convnet", "data.kind=idx", "data.path=a", "data.labels=b"})
            .data.image.empty());
  const JobConfig config = ParseJob(kSmallestJob, {"model.kind=convnet", "data.image=[9, 8, 3]"});
  CHECK(config.data.row_features() == 216);
  CHECK(config.model.channels == std::vector<std::uint32_t>{32, 64});
  CHECK(ParseJob(kSmallestJob, {"data.image=[9, 8, 3]"}).data.row_features() == 216);  // an mlp may read images
  CHECK_THAT(Message(kSmallestJob, {"data.image=[9, 8]"}),
             StartsWith("--set data.image=[9, 8]: image has 2 numbers; wanted [height, width, channels]"));
  CHECK_THAT(Message(kSmallestJob, {"data.image=[1024, 1024, 3]"}), Contains("more than 1048576 numbers"));
  CHECK_THAT(Message(kSmallestJob, {"data.image=[9, 8, 3]", "data.features=216"}),
             Contains("\"synthetic\" without image"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "data.image=[9, 8, 3]"}),
             StartsWith("--set data.image=[9, 8, 3]: image says how rows of numbers are images, and model kind \"gpt\" "
                        "reads tokens; leave image out"));
  CHECK(ParseJob(kSmallestJob, {"model.kind=mlp", "data.image=[9, 8, 3]"}).data.row_features() == 216);
}

TEST_CASE("a convnet that is too large is refused by what makes it large", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"model.kind=convnet", "data.image=[900, 900, 1]", "model.channels=[60000, 60000]"}),
             StartsWith("--set model.channels=[60000, 60000]: the weights of [model] channels and hidden with [data] "
                        "image and classes would take"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=convnet", "data.image=[512, 512, 3]", "model.channels=[512]",
                                    "job.global_batch=100000", "data.samples=1000000"}),
             Contains("samples x [data] image x [model] channels") && !Contains("features"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=resnet", "data.image=[512, 512, 3]", "job.global_batch=1000000",
                                    "data.samples=1000000"}),
             Contains("samples x [data] image or classes would take"));
}

TEST_CASE("a resnet has one of five depths, and a width of its own", "[config]") {
  const auto with = [](const std::string& override) {
    return std::vector<std::string>{"model.kind=resnet", "data.image=[32, 32, 3]", override};
  };
  CHECK(ParseJob(kSmallestJob, with("model.depth=50")).model.depth == 50);
  CHECK(ParseJob(kSmallestJob, with("model.depth=50")).model.width == 64);
  CHECK(ParseJob(kSmallestJob, with("model.width=16")).model.width == 16);
  CHECK(ParseJob(kSmallestJob, {"model.kind=gpt"}).model.width == 128);
  CHECK_THAT(Message(kSmallestJob, with("model.depth=20")),
             StartsWith("--set model.depth=20: depth = 20; a resnet has 18, 34, 50, 101 or 152 layers"));
  CHECK_THAT(Message(kSmallestJob, with("model.depth=10")),
             Contains("depth = 10; a resnet has 18, 34, 50, 101 or 152"));
  CHECK_THAT(Message(kSmallestJob, with("model.depth=1001")), Contains("a resnet has 18, 34, 50, 101 or 152 layers"));
  CHECK_THAT(Message(kSmallestJob, with("model.width=4096")), Contains("a resnet's is at most 2048"));
  CHECK_THAT(
      Message(kSmallestJob, {"model.kind=resnet", "data.image=[32, 32, 3]", "model.width=2048", "model.depth=152"}),
      Contains("the weights of [model] depth and width"));
  CHECK_THAT(Message(kSmallestJob, with("model.dropout=0.1")), Contains("goes with kind = \"gpt\", \"mlp\" or"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=resnet"}), Contains("model kind \"resnet\" reads images"));
  CHECK_THAT(Message(kSmallestJob, {"model.width=16"}), Contains("goes with kind = \"gpt\" or \"resnet\" only"));
}

TEST_CASE("a job's name can be part of a path", "[config]") {
  const std::string longest(64, 'x');
  for (const std::string& name : {std::string("a"), std::string("gpt-2_small.v1"), std::string("0"), longest}) {
    CHECK(ParseJob(kSmallestJob, {"job.name=" + name}).job.name == name);
  }
  for (const char* name : {"", "..", "../x", "a/b", ".a", "-a", "a b", "\xc3\xa4", "a\tb"}) {
    CHECK_THAT(Message(kSmallestJob, {"job.name=\"" + std::string(name) + "\""}), Contains("job.name"));
  }
  CHECK_THAT(Message(kSmallestJob, {"job.name=../x"}),
             StartsWith("--set job.name=../x: job.name is \"../x\"; wanted 1 to 64 letters"));
  CHECK_THAT(Message(kSmallestJob, {"job.name=" + longest + "y"}), Contains("xxx...\"; wanted 1 to 64"));
}

TEST_CASE("sizes that no memory holds are refused before anything is allocated, naming the keys", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"data.features=1000000", "data.classes=1000000"}),
             Contains("[data] features x classes would take 3725 GiB of memory, and the limit is 64 GiB"));
  CHECK_THAT(Message(kSmallestJob, {"model.hidden=[1000000, 1000000]"}),
             StartsWith("--set model.hidden=[1000000, 1000000]: the weights of [model] hidden and [data] features"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "model.width=65536", "model.heads=1", "model.layers=1024"}),
             StartsWith("--set model.width=65536: the weights of [model] layers, width, context"));
  CHECK_THAT(Message(kSmallestJob, {"job.global_batch=16777216", "data.features=1000000"}),
             Contains("a batch of global_batch"));
  CHECK_THAT(Message(kSmallestJob, {"model.kind=gpt", "model.context=1000000", "data.vocabulary=1000000"}),
             Contains("[data] vocabulary would take"));
  // Synthetic samples are generated when needed, so any number of them is allowed.
  CHECK(ParseJob(kSmallestJob, {"data.samples=1000000000000"}).data.samples == 1000000000000);
  CHECK(ParseJob(kSmallestJob, {"job.global_batch=16777216", "data.features=1000000", "worker.accumulate=16777216"})
            .worker.accumulate == 16777216);
}

TEST_CASE("text that is not TOML is refused at its place", "[config]") {
  CHECK_THAT(Message("[job]\nsteps = = 3\n"), StartsWith("job.toml:2:9: ") && Contains("    2 | steps = = 3"));
  CHECK_THAT(Message("[job]\nsteps = 1\nsteps = 2\n"), StartsWith("job.toml:3:"));
  CHECK_THAT(Message("[job\n"), StartsWith("job.toml:1:"));
  CHECK_THAT(Message("[job]\nname = \"\xff\"\n"), StartsWith("job.toml:2:"));
  CHECK_THAT(Message(std::string(2 << 20, '#')), Contains("a job file has at most"));
}

TEST_CASE("the caret stands under its character after wide text and tabs", "[config]") {
  CHECK_THAT(Message("[job]\n\tname = \"\xc3\xa4\"; x\n"), StartsWith("job.toml:2:"));
  const std::string text = "[worker]\n\tdevice = \"k\xc3\xa4se\"\n" + std::string(kSmallestJob);
  CHECK_THAT(Message(text), Contains("    2 | \tdevice = \"k\xc3\xa4se\"\n      | \t         ^^^^^^"));
}

TEST_CASE("an override replaces the file's value, the last one counts", "[config]") {
  CHECK(ParseJob(kSmallestJob, {"job.steps=20", "job.steps=30"}).job.steps == 30);
  CHECK(ParseJob(kSmallestJob, {"model.hidden=[64, 32]"}).model.hidden == std::vector<std::uint32_t>{64, 32});
  CHECK(ParseJob(kSmallestJob, {"job.mode=async"}).job.mode == Mode::kAsync);
  CHECK(ParseJob(kSmallestJob, {"job.mode=\"async\""}).job.mode == Mode::kAsync);
  CHECK(ParseJob(kSmallestJob, {"optimizer.lr=1e-2"}).optimizer.lr == 0.01);
  CHECK(ParseJob(kSmallestJob, {"optimizer.lr=1"}).optimizer.lr == 1.0);
}

TEST_CASE("a text may be given bare, whatever it looks like", "[config]") {
  CHECK(ParseJob(kSmallestJob, {"job.name=5"}).job.name == "5");
  CHECK(ParseJob(kSmallestJob, {"job.name=2024-01-01"}).job.name == "2024-01-01");
  CHECK(ParseJob(kSmallestJob, {"cluster.advertise=a=b"}).cluster.advertise == "a=b");
  CHECK(ParseJob(kSmallestJob, {"cluster.advertise=x\n[model]\nkind=\"gpt\""}).model.kind == ModelKind::kMlp);
  CHECK(ParseJob(kSmallestJob, {"data.kind=csv", "data.path=/usr/x.csv"}).data.path == "/usr/x.csv");
}

TEST_CASE("an override that is none says what one looks like", "[config]") {
  for (const char* bad : {"steps", "steps=5", ".steps=5", "job.=5", "job=5.0", ""}) {
    CHECK_THAT(Message(kSmallestJob, {bad}), Contains("wanted section.key=value"));
  }
  CHECK_THAT(Message(kSmallestJob, {"job.stpes=5"}),
             Equals("--set job.stpes=5: unknown key \"stpes\" in [job]; did you mean \"steps\"?"));
  CHECK_THAT(Message(kSmallestJob, {"jb.steps=5"}), Contains("unknown section [jb]; did you mean \"job\"?"));
}

TEST_CASE("the printed job reads back as the same job, and prints the same", "[config]") {
  const std::string models[] = {"model.kind=mlp", "model.kind=gpt", "model.kind=convnet", "model.kind=resnet"};
  const std::string optimizers[] = {"sgd", "momentum", "adam", "adamw", "adagrad", "lars", "lamb"};
  for (const std::string& model : models) {
    for (const std::string& optimizer : optimizers) {
      for (const char* schedule : {"constant", "cosine", "linear"}) {
        const JobConfig config =
            ParseJob(kSmallestJob, {model, model == "model.kind=gpt" ? "data.vocabulary=99" : "data.image=[8, 9, 3]",
                                    "optimizer.kind=" + optimizer, std::string("schedule.kind=") + schedule,
                                    "optimizer.lr=0.1", "optimizer.clip_norm=0.30000000000000004", "cluster.workers=3",
                                    "cluster.advertise=\"a \\\"b\\\" \\\\ \\u0001 \xc3\xa4\"",
                                    "optimizer.no_decay=[\"*.bias\", \"x\"]"});
        const std::string text = PrintJobConfig(config);
        INFO(text);
        const JobConfig again = ParseJob(text);
        CHECK(again == config);
        CHECK(PrintJobConfig(again) == text);
        CHECK(HashJobConfig(again) == HashJobConfig(config));
      }
    }
  }
  for (const std::vector<std::string>& data :
       {std::vector<std::string>{"data.kind=csv", "data.path=a"},
        {"data.kind=idx", "data.path=a", "data.labels=b"},
        {"model.kind=gpt", "data.kind=text", "data.path=a", "data.max_bytes=9"},
        {"model.kind=gpt", "data.kind=tokens", "data.path=a", "data.type=uint32", "data.vocabulary=300"},
        {"data.kind=cifar10", "data.path=a", "data.flip=false"}}) {
    const JobConfig config = ParseJob(kSmallestJob, data);
    CHECK(ParseJob(PrintJobConfig(config)) == config);
  }
}

TEST_CASE("the hash covers what the bits depend on and what members share, and nothing else", "[config]") {
  const std::vector<std::string> base = {"job.slots=4"};
  const std::uint64_t hash = HashJobConfig(ParseJob(kSmallestJob, base));
  auto with = [&](const std::string& override) { return HashJobConfig(ParseJob(kSmallestJob, {base[0], override})); };
  for (const char* free :
       {"cluster.workers=3", "cluster.coordinator=h:1", "cluster.listen=h:1", "cluster.advertise=h", "worker.threads=2",
        "limits.join=5", "metrics.listen=h:9", "metrics.token_file=t", "metrics.hosts=[\"h\"]",
        "snapshot.every_steps=5", "snapshot.every_seconds=0", "snapshot.keep=9", "cluster.min_workers=1"}) {
    INFO(free);
    CHECK(with(free) == hash);
  }
  for (const char* bound :
       {"job.slots=5", "job.seed=2", "job.steps=11", "job.mode=async", "optimizer.lr=0.5", "cluster.servers=2",
        "cluster.shards_per_server=2", "worker.accumulate=2", "model.dropout=0.1", "data.samples=99",
        "schedule.warmup_steps=1", "job.on_nonfinite=skip", "worker.precision=bf16"}) {
    INFO(bound);
    CHECK(with(bound) != hash);
  }
}

TEST_CASE("recomputation moves no bit, so a job may begin with it or without, and be continued otherwise", "[config]") {
  const JobConfig kept = ParseJob(kSmallestJob, {"model.kind=resnet", "data.image=[4, 4, 2]"});
  const JobConfig recomputed = ParseJob(PrintJobConfig(kept), {"worker.recompute=true"});
  CHECK(recomputed.worker.recompute);
  CHECK(HashJobConfig(kept) == HashJobConfig(recomputed));
  CHECK(DescribeDifference(kept, recomputed).empty());
  CHECK(ParseJob(PrintJobConfig(recomputed)) == recomputed);
}

TEST_CASE("snapshots are taken once a minute and two are kept, unless the job says otherwise", "[config]") {
  const SnapshotSection usual = ParseJob(kSmallestJob).snapshot;
  CHECK(usual == SnapshotSection{0, 60, 2});
  CHECK(usual.enabled());
  const JobConfig config =
      ParseJob(std::string(kSmallestJob) + "[snapshot]\nevery_steps = 50\nevery_seconds = 0\nkeep = 3\n");
  CHECK(config.snapshot == SnapshotSection{50, 0, 3});
  CHECK(config.snapshot.enabled());
  CHECK(ParseJob(PrintJobConfig(config)) == config);
  CHECK_FALSE(ParseJob(kSmallestJob, {"snapshot.every_seconds=0"}).snapshot.enabled());
  CHECK(ParseJob(kSmallestJob, {"snapshot.every_seconds=0.5"}).snapshot.every_seconds == 0.5);
  CHECK(ParseJob(kSmallestJob, {"snapshot.keep=64"}).snapshot.keep == 64);
}

TEST_CASE("at least two snapshots are kept, and none of the numbers is negative", "[config]") {
  CHECK_THAT(Message(kSmallestJob, {"snapshot.keep=1"}),
             Contains("snapshot.keep is 1; wanted a whole number from 2 to 64"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.keep=0"}), Contains("from 2 to 64"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.keep=65"}), Contains("from 2 to 64"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.every_steps=-1"}), Contains("snapshot.every_steps is -1"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.every_steps=1.5"}), Contains("a whole number"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.every_seconds=-0.5"}), Contains("snapshot.every_seconds is -0.5"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.every_seconds=nan"}), Contains("snapshot.every_seconds is nan"));
  CHECK_THAT(Message(kSmallestJob, {"snapshot.evry_steps=5"}), Contains("did you mean \"every_steps\"?"));
}

TEST_CASE("a job file that cannot be read says why", "[config]") {
  const auto missing = LoadJobConfig("/nowhere/job.toml");
  REQUIRE_FALSE(missing.ok());
  CHECK_THAT(missing.status().message(), StartsWith("/nowhere/job.toml: cannot read the job file: No such file"));
  const auto folder = LoadJobConfig("/");
  REQUIRE_FALSE(folder.ok());
  CHECK_THAT(folder.status().message(), Contains("Is a directory"));
}

TEST_CASE("the example jobs are valid", "[config]") {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(CAPSTAN_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    const auto config = LoadJobConfig(entry.path().string());
    INFO(config.status().message());
    CHECK(config.ok());
    ++count;
  }
  CHECK(count >= 3);
}
