#include "cli/launch/output_lines.h"

#include <utility>

namespace capstan::cli {

std::vector<std::string> OutputLines::Add(std::string_view bytes) {
  std::vector<std::string> lines;
  for (const char c : bytes) {
    if (c == '\n') {
      lines.push_back(TakeRest());
    } else if (c == '\r') {
      returned_ = true;
    } else {
      if (std::exchange(returned_, false)) partial_.clear();
      partial_ += c;
      if (partial_.size() == kLineBytesMax) lines.push_back(TakeRest());
    }
  }
  return lines;
}

std::string OutputLines::TakeRest() {
  returned_ = false;
  return std::exchange(partial_, {});
}

}  // namespace capstan::cli
