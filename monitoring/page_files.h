// PageJob, PageStyle, PageScript, PageIcon: the files of monitoring/page, as the build puts them into the program.
//
// Kind:   pure functions.
// Why:    the page needs no file at run time, and no network. In the source they
//         stay HTML, CSS and JavaScript, which editors know.
#pragma once

#include <string_view>

namespace capstan::monitoring {

std::string_view PageJob();     // job.html: the elements of a job's live page
std::string_view PageStyle();   // page.css
std::string_view PageScript();  // page.js
std::string_view PageIcon();    // icon.svg

}  // namespace capstan::monitoring
