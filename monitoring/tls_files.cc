#include "monitoring/tls_files.h"

#include <openssl/ssl.h>

#include <exception>

#include "common/base/file_text.h"
#include "common/base/secret_file.h"

namespace capstan::monitoring {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Result<std::string> ReadCertificate(const std::string& path) {
  Result<std::string> text = ReadFileText(path, kSecretBytesMax + 1);
  if (!text.ok()) return Status(text.status().code(), "cannot read " + path + ": " + text.status().message());
  if (text->size() > kSecretBytesMax)
    return Invalid(path + " has more than " + std::to_string(kSecretBytesMax) + " bytes");
  return text;
}

Result<TlsContext> MakeContext(const std::string& certificate, const std::string& key, const std::string& paths) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  error_code error;
  // Without this, a key with a password would be asked for on the terminal.
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
  if (!error) context->use_certificate_chain(boost::asio::buffer(certificate), error);
  if (error) return Invalid(paths + ": the first has no certificate in PEM (" + error.message() + ")");
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error || SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return Invalid(paths + ": the second has no private key in PEM without a password that belongs to the first" +
                   (error ? " (" + error.message() + ")" : ""));
  }
  return context;
}

}  // namespace

Result<TlsContext> TlsFiles::ReadIfChanged() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string certificate, ReadCertificate(certificate_));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(key_));
  const std::string both = certificate + '\0' + key;
  if (both == read_) return TlsContext();
  read_ = both;
  try {
    return MakeContext(certificate, key, certificate_ + ", " + key_);
  } catch (const std::exception& error) {
    return Invalid(std::string("no TLS: ") + error.what());
  }
}

}  // namespace capstan::monitoring
