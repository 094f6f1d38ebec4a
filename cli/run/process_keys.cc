#include "cli/run/process_keys.h"

#include <sys/prctl.h>

#include <cstdlib>
#include <utility>

#include "common/base/durable_file.h"
#include "common/keys/key_file.h"

namespace capstan::cli {

std::string KeyFileOf(const std::string& flag) {
  const char* const named = std::getenv("CAPSTAN_KEY_FILE");
  return !flag.empty() || named == nullptr ? flag : named;
}

void KeepOutOfCoreFiles() { prctl(PR_SET_DUMPABLE, 0); }

Result<std::shared_ptr<const KeyPair>> LoadKeys(const std::string& key_file) {
  if (!key_file.empty()) KeepOutOfCoreFiles();
  return ReadKeys(key_file);
}

Result<ProcessKeys> LoadKeysToListen(const std::string& key_file, ListedAdmission::OnNotice on_notice) {
  ProcessKeys keys;
  CAPSTAN_ASSIGN_OR_RETURN(keys.pair, LoadKeys(key_file));
  if (keys.pair == nullptr) return keys;
  CAPSTAN_ASSIGN_OR_RETURN(keys.admission,
                           ListedAdmission::Open(FolderOf(key_file) + "/" + kAllowListName, std::move(on_notice)));
  return keys;
}

}  // namespace capstan::cli
