#include "cli/report/sha256_file.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace capstan::cli {

Result<std::string> Sha256OfFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return Unreachable("cannot read " + path + ": " + std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sum(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!sum || EVP_DigestInit_ex(sum.get(), EVP_sha256(), nullptr) != 1) {
    return Unreachable("no sha256 of " + path + ": libcrypto has none");
  }
  std::vector<char> bytes(std::size_t{1} << 20);
  while (in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), in.gcount() > 0) {
    CAPSTAN_CHECK(EVP_DigestUpdate(sum.get(), bytes.data(), static_cast<std::size_t>(in.gcount())) == 1);
  }
  if (in.bad() || !in.eof()) return Unreachable("cannot read " + path + " whole: " + std::strerror(errno));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  CAPSTAN_CHECK(EVP_DigestFinal_ex(sum.get(), digest, &length) == 1);
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

}  // namespace capstan::cli
