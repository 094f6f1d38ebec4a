#include "monitoring/status_page.h"

#include "monitoring/page_files.h"
#include "tests/catch.h"

namespace capstan::monitoring {

TEST_CASE("nothing that a peer wrote becomes markup", "[monitoring]") {
  CHECK(EscapeHtml("<a href=\"x\" b='y'>&") == "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
  CHECK(EscapeHtml(std::string_view("\0\x1b[1m\n", 6)) == "&#xFFFD;&#xFFFD;[1m\n");

  const std::string page = RenderStatusPage(
      R"({"job": "<script>1</script>", "<b>": 1, "workers": [{"<i>": "<u>", "note": ["<s>"]}], "<p>": {"<q>": "<em>"}})");
  CAPTURE(page);
  for (const char* tag : {"<script", "<b>", "<i>", "<u>", "<s>", "<p>:", "<q>", "<em>"})
    CHECK(page.find(tag) == std::string::npos);
  CHECK(page.find("&lt;script&gt;1&lt;/script&gt;") != std::string::npos);
  CHECK(page.find("<td>&lt;u&gt;</td>") != std::string::npos);
}

TEST_CASE("the page of a job has its script, its elements, and the tables for a reader without a script",
          "[monitoring]") {
  const std::string status = R"({"job": "<script>1</script>", "step": 3, "workers": [{"worker": "<b>"}]})";
  const std::string page = RenderStatusPage(status, PageKind::kLive);
  CAPTURE(page);
  CHECK(page.find("<script src=\"/page.js\"></script><noscript><meta http-equiv=\"refresh\"") != std::string::npos);
  CHECK(page.find("<title>capstan: &lt;script&gt;1&lt;/script&gt;</title>") != std::string::npos);
  CHECK(page.find(PageJob()) != std::string::npos);
  CHECK(page.find("<th>step</th><td>3</td>") != std::string::npos);
  CHECK(page.find("<b>") == std::string::npos);
  CHECK(page.find("<script>") == std::string::npos);
  const std::string tables = RenderStatusPage(status);
  CHECK(tables.find("<script") == std::string::npos);
  CHECK(tables.find(PageJob()) == std::string::npos);
  CHECK(tables.find("<th>step</th><td>3</td>") != std::string::npos);
  CHECK(tables.find("http-equiv=\"refresh\"") != std::string::npos);
}

TEST_CASE("the page needs no other host, makes no markup of texts, and finds each element that it fills",
          "[monitoring]") {
  const std::string script(PageScript()), style(PageStyle()), job(PageJob()), icon(PageIcon());
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "import "})
    CHECK(script.find(word) == std::string::npos);
  for (const std::string* file : {&script, &style, &job, &icon}) {
    CHECK_FALSE(file->empty());
    CHECK(file->find("style=\"") == std::string::npos);  // the policy forbids it
    for (const char* word : {"https://", "http://", "@import", "url("}) {
      for (std::size_t at = file->find(word); at != std::string::npos; at = file->find(word, at + 1)) {
        const std::string rest = file->substr(at, 40);
        CAPTURE(rest);
        // The namespace of SVG, a member's own address, and a part of the picture.
        CHECK((rest.starts_with("http://www.w3.org/2000/svg") || rest.starts_with("http://${address}") ||
               rest.starts_with("url(#")));
      }
    }
  }
  for (std::size_t at = script.find("$('"); at != std::string::npos; at = script.find("$('", at + 1)) {
    const std::string id = script.substr(at + 3, script.find('\'', at + 3) - at - 3);
    CAPTURE(id);
    CHECK(job.find("id=\"" + id + "\"") != std::string::npos);
  }
}

TEST_CASE("rows with different fields share one table, and an absent field is an empty cell", "[monitoring]") {
  const std::string page =
      RenderStatusPage(R"({"workers": [{"name": "w0", "step": 3}, {"name": "w1", "late": true}]})");
  CAPTURE(page);
  CHECK(page.find("<tr><th>name</th><th>step</th><th>late</th></tr>") != std::string::npos);
  CHECK(page.find("<tr><td>w0</td><td>3</td><td></td></tr>") != std::string::npos);
  CHECK(page.find("<tr><td>w1</td><td></td><td>true</td></tr>") != std::string::npos);
}

TEST_CASE("facts come before tables, in the owner's order", "[monitoring]") {
  const std::string page = RenderStatusPage(R"({"z": 1, "workers": [{"n": 1}], "a": "two"})");
  CAPTURE(page);
  const auto z = page.find("<th>z</th><td>1</td>"), a = page.find("<th>a</th><td>two</td>"),
             workers = page.find("<h2>workers</h2>");
  CHECK(z < a);
  CHECK(a < workers);
  CHECK(workers != std::string::npos);
}

TEST_CASE("the page is headed by the job, and its numbers are for people", "[monitoring]") {
  const std::string page = RenderStatusPage(
      R"({"job": "a & b", "step": 12, "steps": 200, "loss": 2.544807229176513, "learning_rate": 1.5625e-05})");
  CAPTURE(page);
  CHECK(page.find("<h1>capstan: a &amp; b</h1>") != std::string::npos);
  CHECK(page.find("<th>step</th><td>12 of 200</td>") != std::string::npos);
  CHECK(page.find("<th>steps</th>") == std::string::npos);
  CHECK(page.find("<th>loss</th><td>2.545</td>") != std::string::npos);
  CHECK(page.find("<th>learning rate</th><td>1.563e-05</td>") != std::string::npos);
  CHECK(RenderStatusPage(R"({"step": 3})").find("<h1>capstan</h1>") != std::string::npos);
  CHECK(RenderStatusPage(R"({"step": 3})").find("<th>step</th><td>3</td>") != std::string::npos);
}

TEST_CASE("text that is not a JSON object is shown, escaped", "[monitoring]") {
  CHECK(RenderStatusPage("{broken <b>").find("<pre>{broken &lt;b&gt;</pre>") != std::string::npos);
  CHECK(RenderStatusPage("[1]").find("<pre>[1]</pre>") != std::string::npos);
  CHECK(RenderStatusPage("{\"a\": \"\xff\"}").find("</html>") != std::string::npos);
}

}  // namespace capstan::monitoring
