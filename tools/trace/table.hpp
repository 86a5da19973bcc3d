/* SPDX-License-Identifier: MIT */
/*
 * Rows in columns, which are as wide as what is in them. Texts that are too long for a line of 100
 * characters are the caller's to cut: only what is in the last column may be.
 */
#ifndef TRACE_TABLE_HPP
#define TRACE_TABLE_HPP

#include <cstddef>
#include <string>
#include <vector>

namespace tracing
{

/* What fits in a line. */
inline constexpr std::size_t line_width = 100;

class table
{
public:
	/* A heading that begins with ">" is that of a column whose texts end at the same place. */
	explicit table(const std::vector<std::string> &headings);

	/* As many as there are columns. */
	void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
	bool is_empty() const { return rows_.size() == 1; }

	std::string text() const;

private:
	std::vector<bool> right_;
	std::vector<std::vector<std::string>> rows_; /* the first has the headings */
};

} // namespace tracing

#endif
