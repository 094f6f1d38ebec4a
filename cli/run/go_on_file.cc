#include "cli/run/go_on_file.h"

#include <filesystem>
#include <fstream>

#include "common/base/durable_file.h"

namespace capstan::cli {
namespace {

constexpr char kName[] = "/go-on.txt";

}  // namespace

Status WriteGoOnCall(const std::string& run_dir, const std::string& call) {
  return WriteFileDurably(run_dir + kName, call + "\n");
}

void RemoveGoOnCall(const std::string& run_dir) {
  std::error_code ignored;
  std::filesystem::remove(run_dir + kName, ignored);
}

std::string GoOnCallOf(const std::string& run_dir) {
  std::ifstream in(run_dir + kName);
  std::string call;
  return std::getline(in, call) ? call : "";
}

std::string HowToGoOn(const std::string& run_dir) {
  const std::string call = GoOnCallOf(run_dir);
  return call.empty() ? kGoOnByHand : "to go on: " + call;
}

}  // namespace capstan::cli
