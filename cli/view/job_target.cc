#include "cli/view/job_target.h"

#include <filesystem>
#include <string_view>

#include "cli/run/address.h"
#include "cli/run/find_run.h"
#include "common/base/host_port.h"

namespace capstan::cli {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";

}  // namespace

MetricsSection JobTarget::Pages(MetricsSection section) const {
  if (!access.token_file.empty()) section.token_file = access.token_file;
  if (!access.certificate.empty()) section.certificate = access.certificate;
  return section;
}

Result<JobTarget> FindTarget(const std::string& word, const PagesAccess& access) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(word, error);
  std::string_view address = word;
  const bool is_https = address.starts_with(kHttps);
  if (is_https || address.starts_with(kHttp)) address.remove_prefix(is_https ? kHttps.size() : kHttp.size());
  if (address.ends_with('/')) address.remove_suffix(1);
  if (word.empty() || is_folder || !IsHostPort(address)) {
    const Result<std::string> run = RunOrDefault(word);
    if (run.ok()) return JobTarget{*run, "", access};
    if (word.empty()) return run.status();
    return Invalid(run.status().message() + "; the address of a coordinator's pages is HOST:PORT or https://HOST:PORT");
  }
  if (is_https && access.certificate.empty()) {
    return Invalid(word + " needs --metrics-certificate FILE: the certificate in PEM that the coordinator has to show");
  }
  const Result<std::string> numeric = NumericHost(std::string(address));
  if (!numeric.ok()) return Invalid(word + ": the host is not known here; write its address in numbers");
  return JobTarget{"", *numeric, access};
}

}  // namespace capstan::cli
