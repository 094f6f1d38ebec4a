#include <capstan/client.h>

#include <cstdio>

namespace capstan {

void PrintNotice(const std::string& notice) {
  std::fprintf(stderr, "capstan: %s\n", notice.c_str());  // one call: lines of several threads do not mix
}

}  // namespace capstan
