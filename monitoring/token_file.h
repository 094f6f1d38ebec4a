// TokenFile: the token that a client of the exporter has to send, from a file that only its owner may read. ReadToken:
// for a client.
//
// Kind:   owned by one thread at a time.
// Limits: kTokenCharsMin to kTokenCharsMax characters of A-Z, a-z, 0-9 and -._~+/=, with white space around them.
// Fails:  kInvalid, with the file and what to do; kBusy: no descriptor left. No message has a character of the token.
// Why:    the file is read for each request, so a new token is in force at once, and a file that cannot be used lets
//         nobody in. Without a descriptor to read it, the last token stays in force.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan::monitoring {

inline constexpr std::size_t kTokenCharsMin = 16, kTokenCharsMax = 1024;

Result<std::string> ReadToken(const std::string& path);

class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}

  // Reads the file.
  Status Read();
  // Whether `authorization`, a request's field, has the token that was read last. Takes the same time wherever two
  // tokens of one length differ.
  bool IsIn(std::string_view authorization) const;

 private:
  const std::string path_;
  std::string token_;  // empty: nobody is let in
};

}  // namespace capstan::monitoring
