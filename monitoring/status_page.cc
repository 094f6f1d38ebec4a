#include "monitoring/status_page.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "monitoring/page_files.h"

namespace capstan::monitoring {
namespace {

using Json = nlohmann::ordered_json;  // the owner's order is the page's order

constexpr std::string_view kFoot =
    "<p><a href=\"/metrics\">/metrics</a> &middot; <a href=\"/api/v1/status\">/api/v1/status</a> &middot; "
    "<a href=\"/healthz\">/healthz</a></p></main></body></html>\n";

std::string Head(const std::string& title, PageKind kind) {
  const std::string refresh = "<meta http-equiv=\"refresh\" content=\"5\">";
  const bool live = kind == PageKind::kLive;
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>" +
         title + "</title><link rel=\"icon\" href=\"/icon.svg\"><link rel=\"stylesheet\" href=\"/page.css\">" +
         (live ? "<script src=\"/page.js\"></script><noscript>" + refresh + "</noscript>" : refresh) +
         "</head><body>\n" + (live ? std::string(PageJob()) : "") + "<main id=\"facts\">";
}

std::string Text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {  // as few digits as a reader needs
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.4g", value.get<double>());
    return digits.data();
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsTable(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

// Makes a heading from a key: "learning_rate" becomes "learning rate".
std::string Heading(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return EscapeHtml(name);
}

// Adds a table of the object's scalars. "step" and "steps" become one fact, such as 12 of 200.
void AppendFacts(const Json& object, std::string& page) {
  const bool counts_steps = object.contains("step") && object.contains("steps");
  page += "<table>";
  for (const auto& [name, value] : object.items()) {
    if (IsTable(value) || value.is_object() || (counts_steps && name == "steps")) continue;
    const std::string more = counts_steps && name == "step" ? " of " + Text(object["steps"]) : "";
    page += "<tr><th>" + Heading(name) + "</th><td>" + EscapeHtml(Text(value) + more) + "</td></tr>\n";
  }
  page += "</table>\n";
}

void AppendTable(const Json& rows, std::string& page) {
  std::vector<std::string> columns;
  for (const Json& row : rows)
    for (const auto& [name, value] : row.items())
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
  page += "<table><tr>";
  for (const auto& column : columns) page += "<th>" + Heading(column) + "</th>";
  page += "</tr>\n";
  for (const Json& row : rows) {
    page += "<tr>";
    for (const auto& column : columns) {
      const auto cell = row.find(column);
      page += "<td>" + (cell == row.end() ? std::string() : EscapeHtml(Text(*cell))) + "</td>";
    }
    page += "</tr>\n";
  }
  page += "</table>\n";
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
          escaped += "&#xFFFD;";
        else
          escaped += c;
    }
  }
  return escaped;
}

std::string RenderStatusPage(std::string_view status_json, PageKind kind) {
  const Json status = Json::parse(status_json.begin(), status_json.end(), nullptr, /*allow_exceptions=*/false);
  const bool has_job = status.is_object() && status.contains("job");
  const std::string title = "capstan" + (has_job ? ": " + EscapeHtml(Text(status["job"])) : std::string());
  std::string page = Head(title, kind) + "<h1>" + title + "</h1>\n";
  if (!status.is_object()) {
    page += "<pre>" + EscapeHtml(status_json) + "</pre>\n";
    return page.append(kFoot);
  }
  AppendFacts(status, page);
  for (const auto& [name, value] : status.items()) {
    if (!IsTable(value) && !value.is_object()) continue;
    page += "<h2>" + Heading(name) + "</h2>\n";
    if (value.is_object())
      AppendFacts(value, page);
    else
      AppendTable(value, page);
  }
  return page.append(kFoot);
}

}  // namespace capstan::monitoring
