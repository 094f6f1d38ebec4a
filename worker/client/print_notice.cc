#include <capstan/client.h>

#include <cstdio>

#include "common/base/utf8.h"

namespace capstan {

void PrintNotice(const std::string& notice) {
  std::fprintf(stderr, "capstan: %s\n", Printable(notice).c_str());  // one call: lines of several threads do not mix
}

}  // namespace capstan
