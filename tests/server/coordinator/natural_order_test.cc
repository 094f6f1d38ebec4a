#include "server/coordinator/natural_order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace capstan::server {

TEST_CASE("names are in the order in which people count", "[server][given]") {
  std::vector<std::string> names = {"worker-10", "worker-2", "worker-02", "b", "worker-2-a",
                                    "worker",    "a9",       "a10",       "",  "worker-18446744073709551616",
                                    "worker-9"};
  std::sort(names.begin(), names.end(), ComesBefore);
  CHECK(names == std::vector<std::string>{"", "a9", "a10", "b", "worker", "worker-02", "worker-2", "worker-2-a",
                                          "worker-9", "worker-10", "worker-18446744073709551616"});
  for (const std::string& name : names) CHECK_FALSE(ComesBefore(name, name));
}

}  // namespace capstan::server
