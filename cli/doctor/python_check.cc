#include "cli/doctor/python_check.h"

#include <nlohmann/json.hpp>

#include "cli/doctor/run_program.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

// PyTorch is not imported, which would take seconds: its version is in the list of installed packages.
constexpr char kQuestion[] = R"(
import importlib.metadata, json, sys
sys.path.append(sys.argv[1])
answer = {"version": sys.version.split()[0], "capstan": "", "problem": "", "torch": ""}
try:
    import capstan
    answer["capstan"] = capstan.__file__
    capstan.__version__
except Exception as error:
    answer["capstan"], answer["problem"] = "", f"{type(error).__name__}: {error}"
try:
    answer["torch"] = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    pass
print(json.dumps(answer))
)";

std::string Text(const nlohmann::json& answer, const char* name) {
  const auto value = answer.find(name);
  return value != answer.end() && value->is_string() ? Excerpt(value->get<std::string>()) : "";
}

}  // namespace

PythonFacts ReadPython(const std::string& interpreter, const std::string& package_folder) {
  PythonFacts facts;
  const Result<std::string> output = RunForOutput({interpreter, "-B", "-c", kQuestion, package_folder}, kPythonTime);
  if (!output.ok()) {
    facts.problem = output.status().message();
    return facts;
  }
  const nlohmann::json answer = nlohmann::json::parse(*output, nullptr, false);
  if (!answer.is_object()) {
    facts.problem = interpreter + " answers " + Excerpt(*output);
    return facts;
  }
  facts.version = Text(answer, "version");
  facts.capstan = Text(answer, "capstan");
  facts.capstan_problem = Text(answer, "problem");
  facts.torch = Text(answer, "torch");
  return facts;
}

Finding CheckPython(const PythonFacts& facts, const std::string& interpreter) {
  if (!facts.problem.empty()) {
    return Warning("python", facts.problem,
                   "only training scripts of your own in Python need it: install python3, or name it by --python");
  }
  const std::string python = interpreter + " is Python " + facts.version;
  const std::string torch =
      facts.torch.empty() ? "PyTorch is not installed there" : "PyTorch " + facts.torch + " is installed there";
  if (facts.capstan.empty()) {
    return Warning("python", python + "; it cannot import capstan (" + facts.capstan_problem + "); " + torch,
                   "only training scripts of your own in Python need it: install capstan's wheel there, or put the "
                   "folder with the package into PYTHONPATH");
  }
  return Good("python", python + ", with capstan from " + facts.capstan + "; " + torch);
}

}  // namespace capstan::cli
