// OutputLines: cuts a program's output into lines as a terminal would show them.
//
// Kind:   a value.
// Limits: kLineBytesMax; a longer line is cut into several.
// Why:    a progress bar returns to the beginning of its line (\r) again and again: only its newest text counts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cli {

class OutputLines {
 public:
  static constexpr std::size_t kLineBytesMax = 4096;

  // Appends output. Returns the lines that are now complete.
  std::vector<std::string> Add(std::string_view bytes);
  // Returns the last, unfinished line; empty if there is none.
  std::string TakeRest();

 private:
  std::string partial_;
  bool returned_ = false;  // the next byte starts the line again
};

}  // namespace capstan::cli
