// RenderStatusPage: renders a process's status, a JSON object, as an HTML page.
//
// Kind:   pure function.
// Fails:  never; text that is not a JSON object is shown as it is.
// Why:    /api/v1/status and the page have one source. Any name or value may come from a peer, so all text is escaped.
//         Every process's page has the status as tables. Above them the page of a job has the elements that its script
//         (page/page.js) fills; the script hides the tables. Without a script the page still shows the job's state.
#pragma once

#include <string>
#include <string_view>

namespace capstan::monitoring {

// kTables: the status as tables. kLive: also the live page of a job.
enum class PageKind { kTables, kLive };

// Writes HTML's five special characters as entities, and control characters (below 0x20, except tab and newline) as
// U+FFFD.
std::string EscapeHtml(std::string_view text);

// Renders the page. The scalars of the object, and of each object in it, become a list of facts. An array of objects
// becomes a table with the columns of all its rows.
std::string RenderStatusPage(std::string_view status_json, PageKind kind = PageKind::kTables);

}  // namespace capstan::monitoring
