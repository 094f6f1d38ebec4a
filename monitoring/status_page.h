// RenderStatusPage: the owner's status, a JSON object, as a page for people.
//
// Kind:   pure function.
// Fails:  never; text that is not a JSON object is shown as it is.
// Why:    one source for /api/v1/status and the page; every name and value in it may come from a peer, so all
//         is escaped, and there is no script on the page.
#pragma once

#include <string>
#include <string_view>

namespace capstan::monitoring {

// The five characters that mean something in HTML, as entities; other control characters than tab and newline become
// U+FFFD.
std::string EscapeHtml(std::string_view text);

// Scalars become a list of facts, arrays of objects become tables with the columns of all their rows.
std::string RenderStatusPage(std::string_view status_json);

}  // namespace capstan::monitoring
