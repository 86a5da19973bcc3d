/* SPDX-License-Identifier: MIT */
#include "table.hpp"

#include "units.hpp"

#include <algorithm>
#include <utility>

namespace tracing
{

table::table(const std::vector<std::string> &headings)
{
	auto &first = rows_.emplace_back();

	for (const auto &heading : headings) {
		right_.push_back(heading.starts_with('>'));
		first.push_back(right_.back() ? heading.substr(1) : heading);
	}
}

std::string table::text() const
{
	std::vector<std::size_t> widths(right_.size());
	std::string to;

	for (const auto &row : rows_)
		for (std::size_t i = 0; i < row.size(); i++)
			widths[i] = std::max(widths[i], width(row[i]));
	for (const auto &row : rows_) {
		std::string line;
		for (std::size_t i = 0; i < row.size(); i++) {
			const std::string space(widths[i] - width(row[i]), ' ');
			line += "  " + (right_[i] ? space + row[i] : row[i] + space);
		}
		const auto last = line.find_last_not_of(' ');
		line.erase(last == std::string::npos ? 0 : last + 1);
		/* The last column may be a list of texts, of which the last ones are dropped. */
		while (width(line) > line_width && line.find(", ") != std::string::npos &&
		       line.rfind(", ") > line_width / 2)
			line.erase(line.rfind(", "));
		line = cut(std::move(line), line_width);
		to += line + '\n';
	}
	return to;
}

} // namespace tracing
