/* SPDX-License-Identifier: MIT */
/*
 * Rows in columns, which are as wide as their longest text. If a line is longer than 100
 * characters, only its last column is cut; the caller must cut longer texts in other columns.
 */
#ifndef TRACE_TABLE_HPP
#define TRACE_TABLE_HPP

#include <cstddef>
#include <string>
#include <vector>

namespace tracing
{

/* The longest line. */
inline constexpr std::size_t line_width = 100;

class table
{
public:
	/* A heading that begins with ">" makes its column right-aligned. */
	explicit table(const std::vector<std::string> &headings);

	/* Adds a row, with a text for each column. */
	void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
	bool is_empty() const { return rows_.size() == 1; }

	std::string text() const;

private:
	std::vector<bool> right_;
	std::vector<std::vector<std::string>> rows_; /* the first has the headings */
};

} // namespace tracing

#endif
