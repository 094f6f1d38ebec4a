#include "cli/command_words.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "common/config/suggestion.h"

namespace capstan::cli {
namespace {

constexpr std::string_view kSet = "--set";

// Whether `text` has the form "section.key".
bool IsPlace(std::string_view text) {
  const auto is_name = [](std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    });
  };
  const std::size_t dot = text.find('.');
  return dot != text.npos && std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
         is_name(text.substr(0, dot)) && is_name(text.substr(dot + 1));
}

bool IsAssignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != word.npos && IsPlace(word.substr(0, equals));
}

// Whether `word` is an option such as "-w" or "--workers", and not a negative number.
bool IsOption(std::string_view word) {
  const std::size_t begin = word.find_first_not_of('-');
  return begin != word.npos && (begin == 1 || begin == 2) && std::isalpha(static_cast<unsigned char>(word[begin])) != 0;
}

std::string Join(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns the key of the job file that the user may have meant by `option`, such as "cluster.workers" for "--workers"
// and for "-w". Empty: no key has that name, or several have.
std::string KeyOfOption(std::string_view option, const std::vector<std::string>& keys) {
  std::string name(option.substr(option.find_first_not_of('-')));
  std::replace(name.begin(), name.end(), '-', '_');
  if (name == "w") name = "workers";
  if (name == "s") name = "servers";
  std::vector<std::string> found;
  for (const std::string& key : keys) {
    if (key == name || key.substr(key.find('.') + 1) == name) found.push_back(key);
  }
  return found.size() == 1 ? found.front() : "";
}

}  // namespace

Result<std::vector<std::string>> SpreadSettings(const std::vector<std::string>& words) {
  std::vector<std::string> spread;
  for (std::size_t i = 0; i < words.size(); ++i) {
    spread.push_back(words[i]);
    if (words[i] != kSet || i + 1 == words.size()) continue;
    const std::string& first = words[++i];
    const bool more = i + 1 < words.size() && !IsOption(words[i + 1]);
    if (IsPlace(first) && more && !IsAssignment(words[i + 1])) {
      return Invalid("the \"=\" is missing in --set " + first + " " + words[i + 1] + "; write --set " + first + "=" +
                     words[i + 1]);
    }
    spread.push_back(first);
    for (; IsAssignment(first) && i + 1 < words.size() && IsAssignment(words[i + 1]); ++i) {
      spread.insert(spread.end(), {std::string(kSet), words[i + 1]});
    }
  }
  return spread;
}

std::vector<std::string> TakeScriptArguments(const CommandFacts& run, std::vector<std::string>* words) {
  const auto takes_value = [&](const std::string& word) {
    return std::any_of(run.options.begin(), run.options.end(), [&](const OptionFacts& option) {
      return option.kind != ValueKind::kFlag && std::count(option.names.begin(), option.names.end(), word) > 0;
    });
  };
  std::size_t at = 1;
  for (; at < words->size() && (*words)[at].starts_with('-') && (*words)[at] != "--"; ++at) {
    const bool is_set = (*words)[at] == kSet;
    if (takes_value((*words)[at])) ++at;
    while (is_set && at + 1 < words->size() && IsAssignment((*words)[at + 1])) ++at;
  }
  if (at < words->size() && (*words)[at] == "--") words->erase(words->begin() + static_cast<std::ptrdiff_t>(at));
  if (at + 1 >= words->size()) return {};
  const auto first = words->begin() + static_cast<std::ptrdiff_t>(at) + 1;
  std::vector<std::string> arguments(first, words->end());
  words->erase(first, words->end());
  return arguments;
}

std::string ExplainUnexpected(const CommandWords& words) {
  const std::vector<std::string>& unexpected = words.unexpected;
  const auto option = std::find_if(unexpected.begin(), unexpected.end(), IsOption);
  if (option == unexpected.end()) {
    return "\"" + Join(unexpected) + "\" is not expected here" +
           (unexpected.size() > 1 ? "; a program of your own, and its arguments, stand behind \"--\"" : "");
  }
  const std::size_t equals = option->find('=');
  const std::string name = option->substr(0, equals);
  if (const std::string key = KeyOfOption(name, words.keys); !key.empty()) {
    std::string value = equals == option->npos ? "VALUE" : option->substr(equals + 1);
    auto next = std::find(words.typed.begin(), words.typed.end(), *option);
    if (next != words.typed.end()) ++next;
    if (equals == option->npos && next != words.typed.end() && !IsOption(*next)) value = *next;
    return "there is no option " + name + "; the job file has it: write --set " + key + "=" + value;
  }
  const std::vector<std::string_view> names(words.options.begin(), words.options.end());
  return "there is no option " + name + DidYouMean(name, names);
}

}  // namespace capstan::cli
