#include "monitoring/token_file.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "common/base/secret_file.h"

namespace capstan::monitoring {
namespace {

constexpr std::string_view kTokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
constexpr std::string_view kSpace = " \t\r\n";

bool IsBearer(std::string_view scheme) {
  constexpr std::string_view kBearer = "bearer";
  if (scheme.size() != kBearer.size()) return false;
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    if ((scheme[i] | 0x20) != kBearer[i]) return false;
  }
  return true;
}

}  // namespace

Result<std::string> ReadToken(const std::string& path) {
  Result<std::string> bytes = ReadSecretFile(path);
  if (bytes.status().code() == Code::kBusy) return bytes.status();
  const std::string make = "; make one: (umask 077 && openssl rand -hex 32 > " + path + ")";
  if (!bytes.ok()) return Invalid("metrics.token_file: " + bytes.status().message() + make);
  const std::string_view all = *bytes;
  const std::size_t begin = std::min(all.find_first_not_of(kSpace), all.size());
  const std::string_view token = all.substr(begin, all.find_last_not_of(kSpace) + 1 - begin);
  if (token.size() < kTokenCharsMin || token.size() > kTokenCharsMax ||
      token.find_first_not_of(kTokenCharacters) != token.npos) {
    return Invalid("metrics.token_file: " + path + " has no token; wanted one line of " +
                   std::to_string(kTokenCharsMin) + " to " + std::to_string(kTokenCharsMax) +
                   " letters, digits or -._~+/=" + make);
  }
  return std::string(token);
}

Status TokenFile::Read() {
  const Result<std::string> token = ReadToken(path_);
  if (token.status().code() == Code::kBusy) return token.status();
  token_ = token.ok() ? *token : "";
  return token.status();
}

bool TokenFile::IsIn(std::string_view authorization) const {
  const std::size_t space = authorization.find(' ');
  if (token_.empty() || space == authorization.npos || !IsBearer(authorization.substr(0, space))) return false;
  authorization.remove_prefix(space);
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization.size() == token_.size() &&
         CRYPTO_memcmp(authorization.data(), token_.data(), token_.size()) == 0;
}

}  // namespace capstan::monitoring
