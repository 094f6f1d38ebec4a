#include "tests/kernels/parity.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "tests/catch.h"

namespace capstan::kernels {
namespace {

struct Line {
  std::uint64_t comparisons = 0;
  double error = 0, tolerance = 0;  // of the comparison that came closest to its tolerance
};

using Table = std::map<std::pair<std::string, std::string>, Line>;

Table& TheTable() {
  static Table table;
  return table;
}

class TablePrinter : public Catch::EventListenerBase {
 public:
  using Catch::EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats&) override {
    if (TheTable().empty()) return;
    std::printf("\n%-44s %-7s %12s %10s %10s\n", "result", "numbers", "comparisons", "error", "tolerance");
    for (const auto& [what, line] : TheTable()) {
      std::printf("%-44s %-7s %12llu %10.1e %10.1e\n", what.first.c_str(), what.second.c_str(),
                  static_cast<unsigned long long>(line.comparisons), line.error, line.tolerance);
    }
    std::fflush(stdout);
  }
};
CATCH_REGISTER_LISTENER(TablePrinter)

}  // namespace

bool detail::Agree(const std::string& result, const char* numbers, double error, double tolerance) {
  UNSCOPED_INFO(result << ", " << numbers << ": error " << error << ", tolerance " << tolerance);
  Line& line = TheTable()[{result, numbers}];
  if (line.comparisons++ == 0 || error / tolerance >= line.error / line.tolerance) {
    line.error = error;
    line.tolerance = tolerance;
  }
  return error <= tolerance;
}

}  // namespace capstan::kernels
