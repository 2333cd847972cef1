// listing_html: one page that needs nothing beside it and follows the reader's choice of light or dark.
#include <fmt/format.h>

#include <algorithm>

#include "common/lab/listing.hpp"

namespace lab {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width" />
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --back: #fff; --text: #1f2328; --faint: #818b98; --line: #d1d9e0; --mark: #ffebe9;
  --bar: #cf222e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --back: #0d1117; --text: #f0f6fc; --faint: #9198a1; --line: #3d444d;
  --mark: #3c1618; --bar: #f85149; }} }}
body {{ background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; margin: 2em; }}
pre, table {{ font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow-x: auto; }}
h2 {{ border-top: 1px solid var(--line); padding-top: 1em; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: 0 1em 0 0; text-align: left; white-space: pre; color: var(--faint); font-weight: normal; }}
td.count {{ text-align: right; color: var(--text); }}
td.source {{ color: var(--text); width: 100%; }}
tr.quiet td.source {{ color: var(--faint); }}
tr.mark td {{ background: var(--mark); }}
tr.mark td:first-child {{ box-shadow: inset 3px 0 var(--bar); }}
tr.mark td.cost {{ color: var(--bar); }}
</style>
</head>
<body>
<h1>{title}</h1>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      out += c;
  }
  return out;
}

std::string row(const Margin* m, const std::string& number, const std::string& source) {
  return fmt::format(
      R"(<tr class="{}"><td class="count">{}</td><td>{}</td><td class="cost">{}</td><td>{}</td><td class="source">{}</td></tr>)"
      "\n",
      !m         ? "quiet"
      : m->extra ? "mark"
                 : "line",
      m ? std::to_string(m->count) : "", m ? m->what : "", m ? m->cost : "", number, escaped(source));
}

std::string kernel_html(const simt::KernelCounts& kernel) {
  std::string html = fmt::format("<p>{}</p>\n<table>\n", escaped(kernel_title(kernel))), file;
  for (const Stretch& stretch : listing(kernel)) {
    if (stretch.file != file)
      html += fmt::format("<tr><th>requests</th><th>access</th><th>each takes</th><th>line</th><th>{}</th></tr>\n",
                          escaped(file = stretch.file));
    else
      html += "<tr><td></td><td></td><td></td><td>⋮</td><td></td></tr>\n";
    for (const ListedLine& line : stretch.lines) {
      const std::string number = std::to_string(line.number);
      if (line.margin.empty()) html += row(nullptr, number, line.text);
      for (const Margin& m : line.margin)
        html += &m == &line.margin.front() ? row(&m, number, line.text) : row(&m, "", "");
    }
  }
  return html + "</table>\n";
}

}  // namespace

std::string listing_html(const std::vector<Table>& tables, const Card& card) {
  const std::string title = tables.empty() ? "" : escaped(tables[0].title);
  std::string html = fmt::format(kHead, fmt::arg("title", title));
  for (const Table& table : tables) {
    html += fmt::format("<p>{} · shape {}</p>\n<pre>{}</pre>\n", escaped(table.title), escaped(table.shape),
                        escaped(table_text(table, card)));
    for (const Rung& rung : table.rungs) {
      if (rung.kernels.empty()) continue;
      html += fmt::format("<h2>{}</h2>\n", escaped(rung.name));
      for (const simt::KernelCounts& kernel : rung.kernels) html += kernel_html(kernel);
    }
  }
  return html +
         "<p>Counted access by access on the CPU executor. Marked: more wavefronts than the least, which stands in "
         "brackets, or more sectors than the width needs.</p>\n</body>\n</html>\n";
}

}  // namespace lab
