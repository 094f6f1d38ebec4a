// OutputLines: what a program writes, cut into lines as a terminal would leave them.
//
// Kind:   a value.
// Limits: kLineBytesMax; a longer line is cut into several.
// Why:    a progress bar goes back to the beginning of its line again and again: of such a line the newest text counts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cli {

class OutputLines {
 public:
  static constexpr std::size_t kLineBytesMax = 4096;

  // The lines that these bytes end.
  std::vector<std::string> Add(std::string_view bytes);
  // What stands in the last line, which has no end; empty when there is none.
  std::string TakeRest();

 private:
  std::string partial_;
  bool returned_ = false;  // the next byte stands at the beginning of the line
};

}  // namespace capstan::cli
