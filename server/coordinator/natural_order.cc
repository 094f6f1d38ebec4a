#include "server/coordinator/natural_order.h"

#include <algorithm>

namespace capstan::server {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes the digits at the start of `rest`; returns them without leading zeros.
std::string_view TakeNumber(std::string_view* rest) {
  const auto end = std::find_if_not(rest->begin(), rest->end(), IsDigit);
  std::string_view digits = rest->substr(0, static_cast<std::size_t>(end - rest->begin()));
  rest->remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

bool ComesBefore(std::string_view a, std::string_view b) {
  std::string_view rest_a = a, rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (IsDigit(rest_a.front()) && IsDigit(rest_b.front())) {
      const std::string_view number_a = TakeNumber(&rest_a), number_b = TakeNumber(&rest_b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
      continue;
    }
    if (rest_a.front() != rest_b.front()) {
      return static_cast<unsigned char>(rest_a.front()) < static_cast<unsigned char>(rest_b.front());
    }
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;  // names that differ only in leading zeros, such as "w1" and "w01"
}

}  // namespace capstan::server
