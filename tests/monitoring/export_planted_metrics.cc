// Serves the values of PlantMetrics over HTTP until its standard input ends. Prints one line: the address.
#include <cstdio>
#include <iostream>

#include "monitoring/exporter.h"
#include "tests/monitoring/planted_metrics.h"

int main() {
  using namespace capstan::monitoring;
  auto registry = std::make_shared<Registry>(BuildInfo{"1.2.3", "abc1234"});
  PlantMetrics(*registry);
  const auto exporter = Exporter::Start({}, registry);
  if (!exporter.ok()) {
    std::fprintf(stderr, "%s\n", exporter.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", exporter.value()->address().c_str());
  std::fflush(stdout);
  while (std::cin.get() != std::char_traits<char>::eof()) {
  }
  return 0;
}
