#include "common/base/file_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace capstan {

Result<std::string> ReadFileText(const std::string& path, std::size_t most) {
  constexpr std::size_t kFirst = std::size_t{4} << 10;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  while (in && text.size() < most) {
    const std::size_t had = text.size();
    text.resize(std::min(most, std::max(kFirst, 2 * had)));
    in.read(text.data() + had, static_cast<std::streamsize>(text.size() - had));
    text.resize(had + static_cast<std::size_t>(in.gcount()));
  }
  if (in.is_open() && !in.bad()) return text;
  const int reason = errno != 0 ? errno : EIO;
  return Status(reason == EMFILE || reason == ENFILE ? Code::kBusy : Code::kInvalid, std::strerror(reason));
}

}  // namespace capstan
