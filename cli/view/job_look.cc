#include "cli/view/job_look.h"

#include <utility>

#include "cli/launch/resume.h"
#include "cli/run/find_run.h"
#include "cli/run/go_on_file.h"
#include "cli/run/http_get.h"
#include "cli/run/job_addresses.h"
#include "cli/run/json_fields.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using Kind = JobLook::Kind;

JobLook Saying(Kind kind, std::string text) {
  JobLook look;
  look.kind = kind;
  look.text = std::move(text);
  return look;
}

// Asks the coordinator at `look->address`.
void Ask(JobLook* look, const std::function<bool()>& goes_on) {
  const Result<std::string> body = HttpGet(look->address, "/api/v1/status", look->pages, goes_on);
  if (!body.ok()) {
    look->kind = body.status().code() == Code::kInvalid ? Kind::kUnreadable : Kind::kSilent;
    look->text = body.status().message();
    return;
  }
  look->status = ParseJson(*body);
  look->kind = Kind::kAnswers;
  if (!TextIn(look->status, "state").empty()) return;
  look->kind = Kind::kSilent;
  look->text = look->address + " is no coordinator";
}

}  // namespace

std::string JobLook::Url() const {
  if (address.empty()) return "";
  return (pages.certificate.empty() ? "http://" : "https://") + address + "/";
}

std::string WordOf(const JobLook& look) {
  switch (look.kind) {
    case Kind::kAnswers: return TextIn(look.status, "state");
    case Kind::kStarting: return "starting";
    case Kind::kSilent: return "no answer";
    case Kind::kAtRest: return look.done_steps ? "done" : "not running";
    case Kind::kUnreadable: break;
  }
  return "unreadable";
}

JobLook LookAtRest(const std::string& run_dir) {
  JobLook look = Saying(Kind::kAtRest, "not running");
  const Result<JobConfig> config = LoadJobConfig(run_dir + "/job.toml");
  if (!config.ok()) return look;
  look.done_steps = StepsIfDone(run_dir, *config);
  look.text = look.done_steps
                  ? "done, " + std::to_string(*look.done_steps) + " steps; weights: " + run_dir + "/final.safetensors"
                  : "not running; " + HowToGoOn(run_dir);
  return look;
}

JobLook LookAtJob(const JobTarget& target, const std::function<bool()>& goes_on) {
  JobLook look;
  if (target.run_dir.empty()) {
    look.address = target.address;
    look.pages = target.Pages({});
    Ask(&look, goes_on);
    return look;
  }
  const Result<int> holder = HolderOf(target.run_dir);
  if (!holder.ok()) return Saying(Kind::kUnreadable, holder.status().message());
  if (*holder == 0) return LookAtRest(target.run_dir);
  look.process = *holder;
  const Endpoints endpoints = ReadEndpoints(target.run_dir);
  const auto metrics = endpoints.metrics.find("coordinator");
  if (metrics == endpoints.metrics.end()) {
    look.kind = Kind::kStarting;
    look.text = "starting (process " + std::to_string(*holder) + ")";
    return look;
  }
  const Result<JobConfig> config = LoadJobConfig(target.run_dir + "/job.toml");
  if (!config.ok()) return Saying(Kind::kUnreadable, config.status().message());
  look.address = metrics->second;
  look.pages = target.Pages(config->metrics);
  Ask(&look, goes_on);
  if (look.kind == Kind::kSilent) {
    look.text = "process " + std::to_string(*holder) +
                " works in it, and its coordinator does not answer (it hangs, or is being started again): " + look.text;
  }
  return look;
}

}  // namespace capstan::cli
