// TlsFiles: the certificate and the private key of the exporter's https.
//
// Kind:   owned by one thread at a time.
// Fails:  kInvalid, with the file and the reason: one cannot be read, others than its owner may read the key, or the
//         key is not the certificate's.
// Why:    certificates are replaced while a job runs, so the files are looked at again. TLS 1.2 is the oldest version.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace capstan::monitoring {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

class TlsFiles {
 public:
  TlsFiles(std::string certificate, std::string key) : certificate_(std::move(certificate)), key_(std::move(key)) {}

  // Reads both files. Returns null if they are as they were when they were last read, usable or not.
  Result<TlsContext> ReadIfChanged();

 private:
  const std::string certificate_, key_;  // paths
  std::string read_;                     // the bytes of both files
};

}  // namespace capstan::monitoring
