#include "common/keys/key_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/base/durable_file.h"
#include "common/base/secret_file.h"
#include "common/config/toml_document.h"
#include "common/keys/role_name.h"

namespace capstan {
namespace {

constexpr std::size_t kFileBytesMax = 4096;

// A text that is wiped when it is destroyed.
struct SecretText {
  explicit SecretText(std::string secret = {}) : text(std::move(secret)) {}
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { sodium_memzero(text.data(), text.size()); }
  std::string text;
};

// Closes a file.
struct File {
  explicit File(int opened) : descriptor(opened) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int descriptor;
};

Status CannotRead(const std::string& path, const char* why) {
  return Invalid("cannot read the key file " + path + ": " + why + "; capstan keygen makes one");
}

// Returns a key's text in the file; empty if it has none of that name.
std::string_view TextAt(const TomlDocument& document, std::string_view key) {
  for (const TomlEntry& entry : document.loose()) {
    const auto* text = std::get_if<std::string>(&entry.value.data);
    if (entry.key == key && text != nullptr) return *text;
  }
  return {};
}

void WriteNoCoreFile() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &limit);  // a lower limit is always allowed
}

}  // namespace

Result<KeyFile> ReadKeyFile(const std::string& path) {
  Result<std::string> content = ReadSecretFile(path);
  if (!content.ok())
    return Status(content.status().code(),
                  "the key file: " + content.status().message() + "; capstan keygen makes one");
  const SecretText secret{std::move(*content)};
  const Result<TomlDocument> document = TomlDocument::Parse(secret.text, path, {});
  if (!document.ok()) return CannotRead(path, "it is no TOML");  // not the parser's message, which shows a line
  KeyFile file;
  const std::optional<Role> role = RoleOf(TextAt(*document, "role"));
  if (!role) return CannotRead(path, "its role is none of coordinator, server, worker, reader and admin");
  file.role = *role;
  const std::string_view digits = TextAt(*document, "secret_key");
  std::size_t read = 0;
  SecretKey::Bytes* const bytes = file.keys.secret_key.mutable_bytes();
  const int failure =
      sodium_hex2bin(bytes->data(), bytes->size(), digits.data(), digits.size(), nullptr, &read, nullptr);
  if (failure != 0 || read != kKeyBytes || digits.size() != kKeyDigits) {
    return CannotRead(path, "secret_key does not have 64 hexadecimal digits");
  }
  CAPSTAN_ASSIGN_OR_RETURN(file.keys.public_key,
                           ParsePublicKey("public_key in " + path, TextAt(*document, "public_key")));
  if (PublicKeyOf(file.keys.secret_key) != file.keys.public_key) {
    return CannotRead(path, "its two keys do not belong together");
  }
  return file;
}

Result<std::shared_ptr<const KeyPair>> ReadKeys(const std::string& path) {
  if (path.empty()) return std::shared_ptr<const KeyPair>();
  WriteNoCoreFile();
  CAPSTAN_ASSIGN_OR_RETURN(KeyFile file, ReadKeyFile(path));
  return std::make_shared<const KeyPair>(std::move(file.keys));
}

Status WriteKeyFile(const std::string& path, const KeyFile& file) {
  std::array<char, kKeyDigits + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), file.keys.secret_key.bytes().data(), kKeyBytes);
  SecretText secret;
  secret.text.reserve(kFileBytesMax);  // so that no shorter copy is left behind
  secret.text += "# Whoever can read this file can take part in the job in this role.\nrole = \"";
  secret.text += NameOf(file.role);
  secret.text += "\"\npublic_key = \"" + TextOf(file.keys.public_key) + "\"\nsecret_key = \"";
  secret.text += digits.data();
  secret.text += "\"\n";
  sodium_memzero(digits.data(), digits.size());
  const File made(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (made.descriptor < 0 && errno == EEXIST) {
    return Invalid("there is a key file " + path +
                   " already, and its key would be lost; remove it, or choose another folder");
  }
  if (made.descriptor < 0) return DiskFailure("make", path, errno);
  const ssize_t written = write(made.descriptor, secret.text.data(), secret.text.size());
  if (written != static_cast<ssize_t>(secret.text.size()) || fsync(made.descriptor) != 0) {
    return DiskFailure("write", path, written < 0 ? errno : ENOSPC);
  }
  return SyncFolder(FolderOf(path));
}

}  // namespace capstan
