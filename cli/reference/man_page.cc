#include "cli/reference/man_page.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>

#include "cli/explain/explanations.h"

namespace capstan::cli {
namespace {

// Returns a text that man(7) shows as it is.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '"') {
      escaped += "\\(dq";
    } else if (c == '\n') {
      escaped += "\n.br\n";
    } else {
      escaped += c;
    }
  }
  // A line that begins with one of these would be a request.
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string DateOf(std::int64_t time) {
  const std::time_t seconds = time;
  tm day{};
  gmtime_r(&seconds, &day);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return text.data();
}

std::string ValueName(const OptionFacts& option) {
  if (!option.words.empty()) {
    std::string text;
    for (const std::string& word : option.words) text += (text.empty() ? "" : "|") + word;
    return text;
  }
  return option.kind == ValueKind::kNumber ? "NUMBER" : "TEXT";
}

void AddOption(const OptionFacts& option, std::string* page) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + ("\\fB" + Escaped(name) + "\\fR");
  if (option.names.empty()) head = "\\fI" + Escaped(option.argument) + "\\fR";
  if (!option.names.empty() && option.kind != ValueKind::kFlag) head += " \\fI" + Escaped(ValueName(option)) + "\\fR";
  std::string text = option.help;
  if (!text.empty() && !text.ends_with('.')) text += ".";
  if (!option.range.empty()) text += " From " + option.range + ".";
  if (!option.default_value.empty()) text += " Default: " + option.default_value + ".";
  if (option.is_repeated) text += " May be given several times.";
  *page += ".TP\n" + head + "\n" + Escaped(text) + "\n";
}

std::string Synopsis(const std::string& path, const CommandFacts& command) {
  std::string text = "\\fB" + Escaped(path) + "\\fR";
  bool has_options = false;
  for (const OptionFacts& option : command.options) has_options = has_options || !option.names.empty();
  if (has_options) text += " [\\fIOPTIONS\\fR]";
  for (const OptionFacts& option : command.options) {
    if (!option.names.empty()) continue;
    const std::string name = "\\fI" + Escaped(option.argument) + "\\fR";
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) text += " [\\fICOMMAND\\fR]";
  return text;
}

void AddCommand(const std::string& path, const CommandFacts& command, std::string* page) {
  *page += ".SS " + Escaped(path) + "\n" + Synopsis(path, command) + "\n.PP\n" + Escaped(command.help) + "\n";
  for (const OptionFacts& option : command.options) AddOption(option, page);
  if (!command.footer.empty()) *page += ".PP\n" + Escaped(command.footer) + "\n";
}

void AddExitStatus(std::string* page) {
  *page += ".SH EXIT STATUS\n";
  for (const Explanation& explanation : AllExplanations()) {
    const std::string number = explanation.id.substr(explanation.id.find('-') + 1);
    if (number.size() != 1) continue;  // codes of errors, and what shells and signals cause
    *page += ".TP\n\\fB" + number + "\\fR\n" + Escaped(explanation.meaning) + "\n";
  }
  *page += ".TP\n\\fB128+N\\fR\nSignal N ended it.\n";
}

}  // namespace

std::string ManPage(const CommandFacts& program, const ManPageFacts& facts) {
  std::string title = program.name, page;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  page = ".\\\" Made by \"capstan man\".\n.TH " + Escaped(title) + " 1 " + DateOf(facts.time) + " \"capstan " +
         facts.version + "\" \"capstan\"\n.SH NAME\n" + Escaped(program.name) + " \\- " +
         Escaped(program.help.substr(0, program.help.find_last_not_of('.') + 1)) + "\n.SH SYNOPSIS\n" +
         Synopsis(program.name, program) + "\n.SH DESCRIPTION\n" + Escaped(program.help) + "\n";
  if (!program.footer.empty()) page += ".PP\n" + Escaped(program.footer) + "\n";
  page += ".SH OPTIONS\n";
  for (const OptionFacts& option : program.options) AddOption(option, &page);
  if (!program.commands.empty()) page += ".SH COMMANDS\n";
  for (const CommandFacts& command : program.commands) {
    VisitCommands(command, program.name + " " + command.name,
                  [&](const std::string& path, const CommandFacts& each) { AddCommand(path, each, &page); });
  }
  AddExitStatus(&page);
  return page + ".SH SEE ALSO\n" + facts.see_also + "\n";
}

}  // namespace capstan::cli
