#include "common/base/status.h"

namespace capstan {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalid: return "invalid";
    case Code::kBusy: return "busy";
    case Code::kStale: return "stale";
    case Code::kTimeout: return "timeout";
    case Code::kUnreachable: return "unreachable";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnsupported: return "unsupported";
    case Code::kRefused: return "refused";
  }
  return "unknown";
}

std::string Status::ToString() const { return ok() ? "ok" : std::string(CodeName(code_)) + ": " + message_; }

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace capstan
