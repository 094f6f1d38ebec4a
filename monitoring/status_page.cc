#include "monitoring/status_page.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace capstan::monitoring {
namespace {

using Json = nlohmann::ordered_json;  // the owner's order is the page's order

constexpr std::string_view kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>capstan</title><style>"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:0 0 1.5em}th,td{text-align:left;padding:.15em 1.5em .15em 0;"
    "border-bottom:1px solid #ddd;vertical-align:top;font-variant-numeric:tabular-nums}"
    "h1{font-size:1.4em}h2{font-size:1.05em;margin:.5em 0}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}a{color:#8bf}}"
    "</style></head><body>";
constexpr std::string_view kFoot =
    "<p><a href=\"/metrics\">/metrics</a> &middot; <a href=\"/api/v1/status\">/api/v1/status</a> &middot; "
    "<a href=\"/healthz\">/healthz</a></p></body></html>\n";

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

std::string RenderStatusPage(std::string_view status_json) {
  std::string page(kHead);
  const Json status = Json::parse(status_json.begin(), status_json.end(), nullptr, /*allow_exceptions=*/false);
  const bool has_job = status.is_object() && status.contains("job");
  page += "<h1>capstan" + (has_job ? ": " + EscapeHtml(Text(status["job"])) : std::string()) + "</h1>\n";
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
