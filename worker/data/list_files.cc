#include "worker/data/list_files.h"

#include <algorithm>

#include "common/base/glob.h"

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

bool IsIncluded(const std::string& relative, const std::vector<std::string>& include) {
  if (include.empty()) return true;
  const std::string name = relative.substr(relative.rfind('/') + 1);
  return std::any_of(include.begin(), include.end(), [&](const std::string& pattern) {
    return GlobMatches(pattern, pattern.find('/') == std::string::npos ? name : relative);
  });
}

std::string PatternList(const std::vector<std::string>& include) {
  std::string list;
  for (const std::string& pattern : include) list += (list.empty() ? "" : ", ") + pattern;
  return list;
}

}  // namespace

Result<std::vector<std::string>> ListFiles(const fs::path& folder, const std::vector<std::string>& include) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  while (!error && it != end) {
    std::error_code no_file;  // a dangling link is neither a file nor a failure
    if (it->is_regular_file(no_file)) {
      std::string relative = it->path().lexically_relative(folder).generic_string();
      if (IsIncluded(relative, include)) files.push_back(std::move(relative));
    }
    it.increment(error);
  }
  if (error) return Invalid(folder.string() + ": cannot list the folder: " + error.message());
  if (files.empty()) {
    return Invalid(folder.string() + ": no files in this folder" +
                   (include.empty() ? "" : " that match [data] include = " + PatternList(include)));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace capstan::train
